"""How an implicit array is made: the shape and dtype that it is given, and its fields checked."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

import jax
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from typedqax import _jax
from typedqax._aval import (
    batch_shape,
    derive,
    given_dtype,
    given_shape,
    is_array_like,
    is_floating,
    look,
)
from typedqax._contracts import check_fields
from typedqax._errors import ContractError, UsageError, shown_argument
from typedqax._scope import enter_where_made
from typedqax._value import (
    EXACT,
    EXTENT,
    ImplicitValue,
    exactness,
    extent,
    field_names,
    is_value,
    set_state,
)


class ShapeProperty:
    """`shape`, which may be given; else it is computed or derived each time it is asked for."""

    @overload
    def __get__(self, instance: None, owner: type) -> ShapeProperty: ...
    @overload
    def __get__(self, instance: ImplicitValue, owner: type) -> tuple[int, ...]: ...
    @_jax.api_boundary
    def __get__(self, instance: ImplicitValue | None, owner: type) -> Any:
        if instance is None:
            return self
        # What was given is told without the dtype: materialize() may need the one for the other.
        shape = given_shape(instance)
        return look(instance).operand.shape if shape is None else batch_shape(instance) + shape

    def __set__(self, instance: ImplicitValue, shape: Sequence[int] | None) -> None:
        _give_shape(instance, shape)


class DtypeProperty:
    """`dtype`, which may be given; else it is computed or derived each time it is asked for."""

    @overload
    def __get__(self, instance: None, owner: type) -> DtypeProperty: ...
    @overload
    def __get__(self, instance: ImplicitValue, owner: type) -> np.dtype[Any]: ...
    @_jax.api_boundary
    def __get__(self, instance: ImplicitValue | None, owner: type) -> Any:
        if instance is None:
            return self
        dtype = given_dtype(instance)
        return look(instance).event.dtype if dtype is None else dtype

    def __set__(self, instance: ImplicitValue, dtype: DTypeLike | None) -> None:
        instance.__dict__["_given_dtype"] = _as_dtype(instance, dtype)
        extent = instance.__dict__.pop(EXTENT, None)
        if extent is not None:
            instance.__dict__[EXTENT] = _extent(instance, tuple(extent.shape[:-1]))


class SignatureProperty:
    """What `inspect.signature` and `help` show of a class: what its constructor takes."""

    def __get__(self, instance: ImplicitValue | None, owner: type[ImplicitValue]) -> Any:
        if instance is not None:
            raise AttributeError("__signature__")
        if "__dataclass_fields__" not in owner.__dict__:  # else dataclass() may be at work, and ask
            field_names(owner)  # settles the fields, and with them __init__
        signature = inspect.signature(owner.__init__)
        _, *parameters = signature.parameters.values()
        return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def construction(init: Callable[..., None], *, takes_shape: bool) -> Callable[..., None]:
    """`init`, after whose outermost call the new instance is complete, or refused."""

    @_jax.api_boundary
    @functools.wraps(init)
    def construct(self: Any, /, *args: Any, **kwargs: Any) -> None:
        state = self.__dict__
        outermost = "_constructing" not in state
        if outermost:
            state["_constructing"] = True
        kept = {name[6:]: kwargs.pop(name) for name in _HIDDEN_FIELDS if name in kwargs}
        try:
            if takes_shape:
                given = {name: kwargs.pop(name) for name in ("shape", "dtype") if name in kwargs}
                initialize(self, **(kept | given))
            init(self, *args, **kwargs)
        finally:
            if outermost:
                del state["_constructing"]
        if outermost:
            _complete(self)
            enter_where_made()

    construct.__dict__["_is_written"] = not takes_shape  # read by subclasses
    if takes_shape:
        construct.__dict__["__signature__"] = _with_shape_and_dtype(init)  # read by inspect
    return construct


def initialize(
    value: ImplicitValue, *, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None
) -> None:
    """Keep the shape and dtype that a new instance is given; none does not undo what was given."""
    if shape is not None or "_given_shape" not in value.__dict__:
        _give_shape(value, shape)
    if dtype is not None or "_given_dtype" not in value.__dict__:
        value.__dict__["_given_dtype"] = _as_dtype(value, dtype)


def _with_shape_and_dtype(init: Callable[..., None]) -> inspect.Signature:
    signature = inspect.signature(init)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("shape", "dtype")
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*signature.parameters.values(), *extra])


def _complete(value: Any) -> None:
    """Settle the shape of a new instance, and check its fields."""
    cls, state, names = type(value), value.__dict__, field_names(type(value))
    unset = [name for name in (*names.children, *names.auxiliary) if name not in state]
    for name in unset:
        if not hasattr(cls, name):
            raise UsageError(f"{cls.__name__}.__init__ does not set the field {name!r}.")
        state[name] = getattr(cls, name)
    for name in names.auxiliary:
        _check_auxiliary(cls, name, state[name])
    if names.auxiliary:
        state[EXACT] = exactness(cls, [state[name] for name in names.auxiliary])
    if "_given_shape" not in state:
        state["_given_shape"] = None
    if "_given_dtype" not in state:
        state["_given_dtype"] = None
    given = state["_given_shape"]
    if not names.children:
        state[EXTENT] = _extent(value, given)
        state["_given_shape"] = None
    elif given is not None:
        batch = batch_shape(value)
        if given[: len(batch)] != batch:
            raise ContractError(
                f"{cls.__name__}(shape={given}):",
                f"its fields have the batch axes {batch} in front of those annotated.",
                advice="Give the whole shape, batch axes first, or none.",
            )
        state["_given_shape"] = given[len(batch) :]
    if given is not None or state["_given_dtype"] is not None:
        _let_replace_keep(cls)
    set_state(value, dict(state))
    check_fields(value)


def assignment(store: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    """`store`, which keeps what an attribute is given, for classes that have auxiliary data.

    That of a complete instance is checked when it is assigned; a ContractError says what is none.
    """
    if getattr(store, "_checks_auxiliary", False):  # of a base
        return store

    @_jax.api_boundary
    @functools.wraps(store)
    def assign(self: Any, name: str, value: Any, /) -> None:
        state, names = self.__dict__, field_names(type(self)).auxiliary
        if name not in names or EXACT not in state:
            store(self, name, value)
            return
        before = state[name]
        store(self, name, value)
        try:
            _check_auxiliary(type(self), name, state[name])
        except ContractError:
            state[name] = before
            raise
        state[EXACT] = exactness(type(self), [state[each] for each in names])

    assign.__dict__["_checks_auxiliary"] = True
    return assign


def _check_auxiliary(cls: type, name: str, value: Any) -> None:
    leaves = jax.tree.leaves(value, is_leaf=is_value) if isinstance(value, tuple) else [value]
    held = [
        leaf for leaf in leaves if isinstance(leaf, (jax.Array, np.ndarray, ImplicitValue, Tracer))
    ]
    if held:
        what = "an implicit array" if isinstance(held[0], ImplicitValue) else "an array"
        raise ContractError(
            f"{cls.__name__}.{name}",
            f"is auxiliary data, but holds {what}.",
            advice="Make it a field without aux_field, so that it is a leaf; or pass a Python "
            "scalar.",
        )
    try:
        hash(value)
    except TypeError as error:
        raise ContractError(
            f"{cls.__name__}.{name}",
            f"is auxiliary data, but holds a {type(value).__name__}, which cannot be hashed.",
            advice="JAX compares and hashes auxiliary data: use a tuple, a frozenset, a frozen "
            "dataclass.",
        ) from error


def _extent(value: Any, given: tuple[int, ...] | None) -> Any:
    """The zero-byte leaf that carries the shape of a class without array fields.

    Of integers it is a leaf of floats too, so that derivatives pass it by.
    """
    shape = given
    if shape is None:
        shape = derive(value).shape
    dtype = given_dtype(value)
    if dtype is None or not is_floating(dtype):
        dtype = np.dtype(np.float32)
    return extent(shape, dtype)


def _give_shape(value: ImplicitValue, shape: Sequence[int] | None) -> None:
    if shape is None:
        value.__dict__["_given_shape"] = None
        return
    try:
        canonical = _jax.canonical_shape(shape)
    except TypeError as error:
        # A size by itself is known by JAX's taking it for the only axis: symbolic ones too.
        axes = _one_axis(shape)
        plain = isinstance(shape, (tuple, list)) and not any(map(is_array_like, shape))
        said = error if plain else "a shape is a tuple of sizes"
        if axes is not None:
            said = f"a shape is a tuple of sizes, here shape={axes}"
        given = shape if plain else shown_argument(shape)
        raise UsageError(f"{type(value).__name__}(shape={given}): {said}") from error
    if EXTENT in value.__dict__:
        value.__dict__[EXTENT] = _extent(value, canonical)
    else:
        value.__dict__["_given_shape"] = canonical


def _one_axis(size: Any) -> str | None:
    """The shape that has one axis of this size, as it is written; None where it is no size."""
    try:
        (axis,) = _jax.canonical_shape((size,))
    except TypeError:
        return None
    return f"({axis},)"


def _as_dtype(value: ImplicitValue, dtype: DTypeLike | None) -> Any:
    if dtype is None:
        return None
    try:
        return _jax.canonical_dtype(dtype)
    except TypeError as error:
        given = shown_argument(dtype)
        raise UsageError(f"{type(value).__name__}(dtype={given}): {error}") from error


_HIDDEN_FIELDS = ("_kept_shape", "_kept_dtype")
_HIDDEN = object()
"""The kind of a field that `dataclasses.replace` passes on, and that nothing else looks at."""


def _let_replace_keep(cls: Any) -> None:
    """Let `dataclasses.replace` pass on a shape and dtype that were given, by hidden fields.

    What was derived is derived anew, from the fields that replace the old ones.
    """
    fields: dict[str, Any] = cls.__dict__["__dataclass_fields__"]
    if _HIDDEN_FIELDS[0] in fields:
        return
    for name in _HIDDEN_FIELDS:
        hidden: Any = dataclasses.field(default=None, kw_only=True)
        hidden.name, hidden.type, hidden._field_type = name, object, _HIDDEN
        fields[name] = hidden
