"""Slices of implicit arrays along their first axis, and stacks of them, made on their leaves.

Slicing the leaves slices the array where the first axis is a batch axis; and where `materialize` is
seen to compute each entry alike, from those at its place in fields that have the array's shape, as
`"*s"` says in their annotations, and from numbers: one number may fill the array, whatever its
shape. So it is with the arrays in its fields. Nothing else is taken for granted: the slices of a
leaf `x` are not those of an array that stands for `x.T`, or for the running sums of `x`, nor is a
slice of `arange` an `arange`. Auxiliary data stay what they are, as they do where `vmap` or `scan`
outside of the transform slices the leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from typedqax import _jax
from typedqax._aval import aval_of, batch_shape, batched_fields, is_array_like, shape_of
from typedqax._entries import same_entries
from typedqax._errors import TypedQaxError
from typedqax._fields import field_layouts
from typedqax._higher_order._rewrite import Slot
from typedqax._run import Run
from typedqax._value import (
    EXTENT,
    ImplicitValue,
    child_values,
    field_names,
    is_value,
    with_children,
)


@dataclass(frozen=True, slots=True)
class Slices:
    """How each slice of an array is made of the array's leaves.

    Attributes:
        slot: of one slice.
        cut: per leaf, whether it is sliced too; else all slices share it.
    """

    slot: Slot
    cut: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Unsliced:
    """Why slices of leaves make no slices of an array, or stacks of them no stack.

    Attributes:
        reason: a clause about the array; empty where nothing more is known.
        annotating: what to annotate otherwise, a clause; empty where that would not help.
    """

    reason: str = ""
    annotating: str = ""

    def told(self, what: str) -> str:
        """`what`, a clause that says so, with the reason behind it."""
        return f"{what}: {self.reason}" if self.reason else what


def slices_of(run: Run, value: Any) -> Slices | Unsliced:
    """The slices of `value` along its first axis, or why its leaves do not make them."""
    whole = Slot.of(value).stand_in()
    found = _piece(run, whole, whole.shape[0])
    if isinstance(found, Unsliced):
        return found
    return Slices(Slot.of_abstract(found[0]), tuple(found[1]))


def stack_of(
    run: Run, slot: Slot, length: int, carry: Sequence[bool] | None = None
) -> Slot | Unsliced:
    """The slot of `length` values of `slot`, stacked, or why stacked leaves do not make it.

    Each leaf is stacked, or those that are to `carry` the new axis, and the values share the rest.
    """
    flags = [True] * len(slot.avals) if carry is None else list(carry)
    avals = [
        _with_first_axis(aval, length) if flag else aval
        for aval, flag in zip(slot.avals, flags, strict=True)
    ]
    stacked = Slot(slot.tree, tuple(avals))
    if not slot.implicit:
        return stacked
    one, many = slot.stand_in(), stacked.stand_in()
    unknown = Unsliced() if _tells_axes(type(one)) else _unsliced(type(one))
    try:
        if tuple(aval_of(many).shape) != (length, *aval_of(one).shape):
            return unknown
        found = _piece(run, many, length)
    except TypedQaxError:
        return unknown  # its leaves would describe no array
    if isinstance(found, Unsliced):
        return found
    if not Slot.of_abstract(found[0]).same_type(slot) or found[1] != flags:
        return unknown
    return stacked


def _piece(run: Run, value: Any, length: int) -> tuple[Any, list[bool]] | Unsliced:
    """A slice of an abstract value that has so many, and per leaf whether it is sliced too."""
    if not is_value(value):
        return _jax.of_shape(value, value.shape[1:]), [True]
    batch = batch_shape(value)
    if batch[:1] != (length,):
        return _piece_alike(run, value, length)
    return _with_pieces(run, value, length, batched_fields(value, batch))


def _with_pieces(
    run: Run, value: ImplicitValue, length: int, names: Collection[str]
) -> tuple[Any, list[bool]] | Unsliced:
    """The same with slices of the fields of these names, and the others as they are."""
    fields: dict[str, Any] = {}
    cut: list[bool] = []
    for name, field in child_values(value):
        found = (field, [False] * len(jax.tree.leaves(field)))
        if name in names:
            inner = _piece(run, field, length)
            if isinstance(inner, Unsliced):
                return Unsliced(f"in its field {name}, {inner.reason}", inner.annotating)
            found = inner
        fields[name] = found[0]
        cut += found[1]
    return with_children(value, fields), cut


def _piece_alike(run: Run, value: ImplicitValue, length: int) -> tuple[Any, list[bool]] | Unsliced:
    """The same of an array that computes each entry alike, whatever its place and the shape."""
    unsliced = _unsliced(type(value))
    whole = tuple(aval_of(value).shape)
    if not field_names(type(value)).children:
        extent = _jax.shaped_array((*whole[1:], 0), value.__dict__[EXTENT].dtype)
        piece, cut = with_children(value, {EXTENT: extent}), [True]
    else:
        given, names = value.__dict__.get("_given_shape"), _fields_of_its_shape(type(value))
        if not given and not names:
            return unsliced
        fields = dict(child_values(value))
        if any(
            not is_array_like(fields[name]) or shape_of(fields[name]) != whole for name in names
        ):
            return unsliced
        found = _with_pieces(run, value, length, names)
        if isinstance(found, Unsliced):
            return found
        piece, cut = found
        if given:
            piece = with_children(piece, {"_given_shape": given[1:]})
    try:
        fits = tuple(aval_of(piece).shape) == whole[1:]
    except TypedQaxError:
        fits = False  # the class has no array of that shape
    longer = value if whole[0] != 0 else _of_length_one(value, piece, cut)
    return (piece, cut) if fits and same_entries(run, longer, piece, cut) else unsliced


def _of_length_one(value: ImplicitValue, piece: ImplicitValue, cut: Sequence[bool]) -> Any:
    """An array of one such slice in place of `value`, which has none.

    `jnp.where` computes nothing for an empty array, and something for its slices.
    """
    leaves = jax.tree.leaves(piece)
    avals = [
        _with_first_axis(leaf, 1) if flag else leaf for leaf, flag in zip(leaves, cut, strict=True)
    ]
    longer = jax.tree.unflatten(jax.tree.structure(value), avals)
    given = value.__dict__.get("_given_shape")
    return with_children(longer, {"_given_shape": (1, *given[1:])}) if given else longer


def _with_first_axis(aval: Any, length: int) -> Any:
    return _jax.of_shape(aval, (length, *aval.shape))


# --- what annotations tell -----------------------------------------------------------------------


def _fields_of_its_shape(cls: type[ImplicitValue]) -> frozenset[str]:
    """The fields that have the shape of the array, with any number of axes.

    There are none unless all others are numbers: what their axes are would not be known.
    """
    layouts = field_layouts(cls)
    sections = {name: layout.whole_section for name, layout in layouts.items()}
    names = frozenset(name for name, section in sections.items() if section is not None)
    of_others = {layouts[name].rank for name in layouts.keys() - names}
    one_shape = len({sections[name] for name in names}) == 1
    return names if one_shape and of_others <= {0} else frozenset()


def _tells_axes(cls: type[ImplicitValue]) -> bool:
    """Whether annotations tell of each field what its axes are to the array."""
    layouts = field_layouts(cls)
    named = all(
        name in layouts and layouts[name].rank is not None for name in field_names(cls).children
    )
    return named or bool(_fields_of_its_shape(cls))


def _unsliced(cls: type[ImplicitValue]) -> Unsliced:
    """Why an array without batch axes is not sliced."""
    if not field_names(cls).children:
        return Unsliced("it has no fields, and no one number is seen to fill it in every shape")
    if not _tells_axes(cls):
        return Unsliced(
            "the annotations of its fields do not tell which of their axes are axes of it",
            f"annotate the array fields of {cls.__name__} with names for their axes, as in "
            f'"m n", so that it may have batch axes in front of these; or all with "*s", if each '
            f"entry is computed from those at its place in them",
        )
    if _fields_of_its_shape(cls):
        return Unsliced(
            f"{cls.__name__}.materialize is not seen to compute each entry from those at its "
            f"place in the fields"
        )
    return Unsliced("its fields have no axes in front of those that their annotations name")
