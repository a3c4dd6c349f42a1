"""The shape and dtype of an implicit array: given, computed, or derived from `materialize`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from typedqax import _jax
from typedqax._errors import ContractError, ShapeError, UninitializedAval, shown_result
from typedqax._fields import FieldLayout, field_layouts
from typedqax._signature import Dense, Operand
from typedqax._value import (
    EXACT,
    EXTENT,
    ImplicitValue,
    child_values,
    field_names,
    is_value,
    with_children,
)
from typedqax._written import method_place

_REMEMBERED = 4096
"""How many shapes and dtypes a class remembers; more than a program has, and bounded."""


class Derived(NamedTuple):
    """The shape without batch axes, and the dtype, of an implicit array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def is_array_like(value: Any) -> bool:
    """Whether `value` has a shape and a dtype: an array, a tracer, a ShapeDtypeStruct."""
    return is_value(value) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array, dense or implicit."""
    return tuple(value.shape)


class Seen(NamedTuple):
    """All that is known of an implicit array from the shapes and dtypes of its fields.

    Attributes:
        operand: what it is dispatched as.
        aval: the abstract value that it stands for; strongly typed.
        batch: its batch axes.
        event: its shape without them, and its dtype.
    """

    operand: Operand
    aval: _jax.ShapedArray
    batch: tuple[int, ...]
    event: Derived


def look(value: ImplicitValue) -> Seen:
    """What is known of `value`; remembered by its class, per shapes and dtypes of fields.

    Raises:
        UninitializedAval: nothing tells its shape or dtype.
        ShapeError: a field has fewer axes than its annotation names.
    """
    cls = type(value)
    memo: dict[Any, Seen] = cls.__dict__.get("_seen") or _new_memo(cls)
    key = fields_key(value)
    seen = memo.get(key)
    if seen is None:
        batch = batch_shape(value)
        event = derive(value)
        shape = batch + event.shape
        seen = Seen(
            Operand(cls, _jax.dtype_name(event.dtype), shape),
            _jax.shaped_array(shape, event.dtype),
            batch,
            event,
        )
        if len(memo) >= _REMEMBERED:
            memo.clear()
        memo[key] = seen
    return seen


def fields_key(value: ImplicitValue) -> tuple[Any, ...]:
    """All that the shape and dtype of `value` can depend on, as far as it is not its class.

    What annotations say of its fields does not depend on more either.
    """
    state = value.__dict__
    names = field_names(type(value))
    parts: list[Any] = [state.get("_given_shape"), state.get("_given_dtype"), _jax.wide_types()]
    if names.auxiliary:
        for name in names.auxiliary:  # with the type: 1 == 1.0, but they do not promote alike
            parts += [state.get(name), type(state.get(name))]
        parts.append(state.get(EXACT))
    for name in names.children or (EXTENT,):
        field: Any = state.get(name)
        if is_value(field):  # looked at once: its shape and dtype would each look at all below
            seen = look(field)
            parts += (type(field), seen.operand.shape, seen.event.dtype)
            continue
        try:
            parts += (field.__class__, tuple(field.shape), field.dtype)
        except AttributeError:
            leaves, tree = jax.tree.flatten(field, is_leaf=is_value)
            parts += [tree, *[_leaf_key(leaf) for leaf in leaves]]
    return tuple(parts)


def _leaf_key(leaf: Any) -> Any:
    if is_value(leaf):
        seen = look(leaf)
        return seen.operand.shape, seen.event.dtype
    return (tuple(leaf.shape), leaf.dtype) if is_array_like(leaf) else type(leaf)


def _new_memo(cls: type[ImplicitValue]) -> dict[Any, Seen]:
    memo: dict[Any, Seen] = {}
    cls._seen = memo
    return memo


def describe(value: Any) -> Operand:
    """What `value` is dispatched as."""
    if is_value(value):
        return look(value).operand
    if type(value) is _jax.CONCRETE_ARRAY or isinstance(value, _ABSTRACT):
        aval: Any = value  # it has both, and `typeof` would take longer than all the rest
    else:
        aval = jax.typeof(value)
    dtype = getattr(aval, "dtype", None)
    if dtype is None:  # a token, a reference to mutable state
        return Operand(Dense, "other", ())
    key = aval.shape, dtype
    operand = _dense.get(key)
    if operand is None:
        operand = Operand(Dense, _jax.dtype_name(dtype), tuple(aval.shape))
        if len(_dense) >= _REMEMBERED:
            _dense.clear()
        _dense[key] = operand
    return operand


_ABSTRACT = (jax.ShapeDtypeStruct, _jax.ShapedArray)

_dense: dict[Any, Operand] = {}
"""What dense operands of each shape and dtype are dispatched as."""


def aval_of(value: ImplicitValue) -> _jax.ShapedArray:
    """The abstract value that `value` stands for; strongly typed.

    On a mesh with explicit axes it says how the dense array will be split.
    """
    aval = look(value).aval
    if not _jax.splits_in_types():
        return aval
    split = _dense_split(value)
    return aval if split is None else _jax.type_split_as(aval, split)


def _dense_split(value: ImplicitValue) -> tuple[Any, ...] | None:
    """The mesh axes over which the dense array will be split; None where it is whole.

    They are what the types of the leaves say; remembered by the class, per these.
    """
    cls = type(value)
    leaves, tree = jax.tree.flatten(value)
    types = tuple(map(_jax.type_of, leaves))
    key = id(cls), types
    if key in _active.keys or not any(map(_jax.is_split, types)):
        return None
    if EXTENT in value.__dict__:
        return _jax.split_of(types[0])[:-1]
    memo: dict[Any, tuple[Any, ...]] = cls.__dict__.get("_splits") or _new_splits(cls)
    split = memo.get((tree, types))
    if split is None:
        shadows = [jax.ShapeDtypeStruct(t.shape, t.dtype, sharding=t.sharding) for t in types]
        _active.keys.add(key)
        try:
            dense = jax.eval_shape(_materialized, jax.tree.unflatten(tree, shadows))
        finally:
            _active.keys.discard(key)
        split = (None,) * len(dense.shape) if dense.sharding is None else _jax.split_of(dense)
        if len(memo) >= _REMEMBERED:
            memo.clear()
        memo[tree, types] = split
    return split


def _new_splits(cls: type[ImplicitValue]) -> dict[Any, tuple[Any, ...]]:
    memo: dict[Any, tuple[Any, ...]] = {}
    cls._splits = memo
    return memo


def _materialized(value: ImplicitValue) -> Any:
    """The dense array of `value`, one of a stack after another; whole where that is not sliced."""
    batch = look(value).batch
    if not batch:
        return value._materialize_under_trace()
    children = dict(child_values(value))
    mapped = {name: children[name] for name in batched_fields(value, batch)}
    axes = {name: batch_axes(child, batch[0]) for name, child in mapped.items()}
    if any(each is NOT_SLICED for each in axes.values()):
        return jax.numpy.zeros(look(value).operand.shape, look(value).event.dtype)
    return jax.vmap(lambda one: _materialized(with_children(value, one)), in_axes=(axes,))(mapped)


def batch_shape(value: ImplicitValue) -> tuple[int, ...]:
    """The axes that the leaves of `value` have in front of those their annotations name.

    Raises:
        ShapeError: a field has fewer axes than its annotation names (an event axis was sliced), or
            the fields disagree about their batch axes.
    """
    found: tuple[int, ...] = ()
    found_in = ""
    layouts = field_layouts(type(value))
    for name, field in child_values(value):
        layout = layouts.get(name)
        if layout is None or layout.rank is None or not is_array_like(field):
            continue
        shape = shape_of(field)
        extra = len(shape) - layout.rank
        if extra < 0:
            raise ShapeError.below_event_rank(type(value).__name__, name, shape, layout.rank)
        batch = shape[:extra]
        if not batch:
            continue
        if found and batch != found:
            raise ShapeError.batch_axes(type(value).__name__, found_in, found, name, batch)
        found, found_in = batch, name
    if found:
        _refuse_unplaced(value, found, layouts)
    return found


def _refuse_unplaced(
    value: ImplicitValue, batch: tuple[int, ...], layouts: Mapping[str, FieldLayout]
) -> None:
    """Refuse a field of open rank that may, or may not, have the batch axes of the others."""
    for name, field in child_values(value):
        layout = layouts.get(name)
        is_open = layout is None or (layout.patterns is not None and layout.rank is None)
        if is_open and is_array_like(field) and shape_of(field)[: len(batch)] == batch:
            raise ShapeError.unplaced(type(value).__name__, name, shape_of(field), batch)


def batched_fields(value: ImplicitValue, batch: tuple[int, ...]) -> frozenset[str]:
    """The fields that carry the batch axes (the others are shared)."""
    if not batch:
        return frozenset()
    layouts = field_layouts(type(value))
    return frozenset(
        name
        for name, field in child_values(value)
        if name in layouts
        and (rank := layouts[name].rank) is not None
        and is_array_like(field)
        and len(shape_of(field)) > rank
    )


NOT_SLICED = object()
"""The answer of `batch_axes` where slices of the leaves are no slices of the array."""


def batch_axes(field: Any, size: int) -> Any:
    """Which leaves of a field carry its first batch axis, of this size: a tree of axes for vmap.

    An implicit array in the field says so of its own fields, which may share what they do not map.
    One whose annotations say nothing of batch axes may stand for anything: for the transpose of
    its leaf, or for as many numbers as its shape has.
    """
    if not is_value(field):
        return 0
    batch = batch_shape(field)
    if batch[:1] == (size,):
        batched = batched_fields(field, batch)
        axes = {
            name: batch_axes(child, size) if name in batched else None
            for name, child in child_values(field)
        }
        if any(each is NOT_SLICED for each in axes.values()):
            return NOT_SLICED
        return with_children(field, axes)
    return NOT_SLICED


# --- derivation ----------------------------------------------------------------------------------


class _Active(threading.local):
    """The derivations under way in a thread, so that one that needs itself is told so."""

    def __init__(self) -> None:
        self.keys: set[Any] = set()


_active = _Active()


def derive(value: ImplicitValue) -> Derived:
    """The shape (without batch axes) and the dtype of `value`.

    They are those given at construction, or the class's `default_shape` and `default_dtype`, or
    what `compute_shape()` and `compute_dtype()` give, or those of `materialize()`, which is then
    evaluated abstractly. Nothing is stored in the value: the class remembers, per field shapes.

    Raises:
        UninitializedAval: none of these ways tells.
        ShapeError: a field has fewer axes than its annotation names.
        ContractError: `materialize()` gives no array.
    """
    shape, dtype = given_shape(value), given_dtype(value)
    if shape is not None and dtype is not None:
        return Derived(shape, dtype)
    derived = _evaluated(value)
    return Derived(
        derived.shape if shape is None else shape, derived.dtype if dtype is None else dtype
    )


def given_shape(value: ImplicitValue) -> tuple[int, ...] | None:
    """The shape without batch axes, where the instance or its class says it; else None."""
    shape: tuple[int, ...] | None = value.__dict__.get("_given_shape")
    if shape is None and not field_names(type(value)).children:
        shape = _extent_shape(value)
    return getattr(type(value), "default_shape", None) if shape is None else shape


def given_dtype(value: ImplicitValue) -> np.dtype[Any] | None:
    """The dtype, where the instance or its class says it; else None.

    Where the leaf that carries the shape of a class without array fields was cast, as all leaves
    of a model's parameters are at once, so was the array.
    """
    dtype: np.dtype[Any] | None = value.__dict__.get("_given_dtype")
    if dtype is None:
        default = getattr(type(value), "default_dtype", None)
        if default is None:
            return None
        dtype = _jax.canonical_dtype(default)
    cast: np.dtype[Any] | None = getattr(value.__dict__.get(EXTENT), "dtype", None)
    if cast is None or cast == dtype or not (is_floating(cast) and is_floating(dtype)):
        return dtype
    return cast


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of `dtype` are real and floating, those that numpy does not know included."""
    return bool(jax.numpy.issubdtype(dtype, np.floating))


def _extent_shape(value: ImplicitValue) -> tuple[int, ...] | None:
    extent = value.__dict__.get(EXTENT)
    if extent is None:
        return None
    if not is_array_like(extent):
        raise ShapeError.no_array(type(value).__name__, "shape", extent)
    return shape_of(extent)[:-1]


def _evaluated(value: ImplicitValue) -> Derived:
    """What `compute_shape`, `compute_dtype` or `materialize` give for the dense stand-ins."""
    cls = type(value)
    batch = batch_shape(value)
    batched = batched_fields(value, batch)
    shadows = {
        name: _shadow(cls.__name__, name, field, batch if name in batched else ())
        for name, field in child_values(value)
    }
    return _evaluate(value, shadows, (id(cls), fields_key(value)))


def _shadow(cls: str, name: str, field: Any, batch: tuple[int, ...]) -> Any:
    """The abstract stand-in of a field, without its batch axes."""
    shadow = jax.tree.map(lambda leaf: _leaf_shadow(cls, name, leaf), field)
    for size in batch:
        axes = batch_axes(shadow, size)
        if axes is NOT_SLICED:
            return jax.ShapeDtypeStruct(shape_of(field)[len(batch) :], field.dtype)
        shadow = jax.tree.map(_without_axis, axes, shadow, is_leaf=_is_none)
    return shadow


def _leaf_shadow(cls: str, name: str, leaf: Any) -> jax.ShapeDtypeStruct:
    if is_array_like(leaf):
        return jax.ShapeDtypeStruct(shape_of(leaf), leaf.dtype)
    if isinstance(leaf, (bool, int, float, complex)):
        aval = jax.typeof(_jax.canonicalize(leaf))
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    raise ShapeError.no_array(cls, name, leaf)


def _without_axis(axis: int | None, part: Any) -> Any:
    if axis is None:
        return part
    return jax.ShapeDtypeStruct(part.shape[1:], part.dtype)


def _is_none(value: Any) -> bool:
    return value is None


def _evaluate(value: ImplicitValue, shadows: dict[str, Any], key: Any) -> Derived:
    cls = type(value)
    if key in _active.keys:
        raise UninitializedAval(
            cls.__name__,
            "its materialize() asks for the shape or dtype itself, or computes with the array",
        )
    found: dict[str, Any] = {}
    asked = "compute_shape()"

    def run(children: dict[str, Any]) -> None:
        nonlocal asked
        shadow = with_children(value, children)
        # What is found is given to the stand-in, since materialize() may need it.
        ask_shape = _overridden(shadow, "compute_shape")
        ask_dtype = _overridden(shadow, "compute_dtype")
        if ask_shape is not None:
            found["shape"] = shadow.__dict__["_given_shape"] = tuple(ask_shape())
        asked = "compute_dtype()"
        if ask_dtype is not None:
            found["dtype"] = shadow.__dict__["_given_dtype"] = _jax.canonical_dtype(ask_dtype())
            if EXTENT in shadow.__dict__:  # the dtype of which says whether it was cast
                extent = shape_of(shadow.__dict__[EXTENT])
                shadow.__dict__[EXTENT] = jax.ShapeDtypeStruct(extent, found["dtype"])
        asked = "materialize()"
        if len(found) < 2:
            dense = shadow._materialize_under_trace()
            refuse_no_array(cls, dense)
            found.setdefault("shape", dense.shape)
            found.setdefault("dtype", dense.dtype)

    _active.keys.add(key)
    try:
        jax.eval_shape(run, shadows)
    except (UninitializedAval, ShapeError, ContractError):
        raise
    except Exception as error:
        for name, child in child_values(value):
            if child is None:
                raise ShapeError.no_array(cls.__name__, name, child) from error
        frame = _jax.raised_at(error)
        where = "" if frame is None else f" ({frame.file}:{frame.line})"
        said = f"{type(error).__name__}: {str(error).rstrip('.')}{where}"
        fields = ", ".join(_shown_field(name, field) for name, field in child_values(value))
        mend = f"Mend {asked}."
        if isinstance(error, TypeError | ValueError):  # as JAX says of shapes that do not fit
            mend = (
                f"Mend {asked}, or the fields: annotations that share axes, as in "
                f'Float[ArrayValue, "m n"], refuse fields that do not fit together.'
            )
        raise UninitializedAval(
            cls.__name__,
            f"its {asked} raises {said}, evaluated abstractly for {fields or 'no array fields'}",
            mend,
        ) from error
    finally:
        _active.keys.discard(key)
    return Derived(tuple(found["shape"]), _jax.canonical_dtype(found["dtype"]))


def _shown_field(name: str, field: Any) -> str:
    shown = str(describe(field)) if is_array_like(field) else type(field).__name__
    return f"{name}={shown.removeprefix('Array ')}"


def materialize_of(cls: type) -> str:
    """The class's `materialize`, as an error names it: with its file and line."""
    place = method_place(cls, "materialize")
    return f"{cls.__name__}.materialize" + ("" if place is None else f" ({place})")


def refuse_no_array(cls: type, given: object) -> None:
    """Refuse what `materialize` gave, if that is no array.

    Raises:
        ContractError: it is none.
    """
    if is_array_like(given):
        return
    advice = "It has to return one array, the dense one that it stands for."
    if given is None:
        advice = "It has to return the dense array that it stands for: a `return` is missing."
    raise ContractError(
        materialize_of(cls), f"gave {shown_result(given)}; an array is due.", advice=advice
    )


def _overridden(value: ImplicitValue, name: str) -> Any:
    """The method `name` of `value` where its class, not the base, defines it."""
    if getattr(type(value), name) is getattr(ImplicitValue, name):
        return None
    return getattr(value, name)
