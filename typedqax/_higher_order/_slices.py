"""Slices of implicit arrays along their first axis, and stacks of them, made on their leaves.

Slicing the leaves slices the array where the first axis is a batch axis, and where one number fills
the array whatever its shape; so it is with the arrays in its fields. Nothing else is taken for
granted: the slices of a leaf `x` are not those of an array that stands for `x.T`, nor is a slice of
`arange` an `arange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from typedqax import _jax
from typedqax._aval import aval_of, batch_shape, batched_fields
from typedqax._errors import TypedQaxError
from typedqax._filling import same_filling
from typedqax._higher_order._rewrite import Slot
from typedqax._run import Run
from typedqax._value import EXTENT, child_values, field_names, is_value, with_children


@dataclass(frozen=True, slots=True)
class Slices:
    """How each slice of an array is made of the array's leaves.

    Attributes:
        slot: of one slice.
        cut: per leaf, whether it is sliced too; else all slices share it.
    """

    slot: Slot
    cut: tuple[bool, ...]


def slices_of(run: Run, value: Any) -> Slices | None:
    """The slices of `value` along its first axis; None where its leaves do not make them."""
    whole = Slot.of(value).stand_in()
    found = _piece(run, whole, whole.shape[0])
    return None if found is None else Slices(Slot.of_abstract(found[0]), tuple(found[1]))


def stack_of(run: Run, slot: Slot, length: int, carry: Sequence[bool] | None = None) -> Slot | None:
    """The slot of `length` values of `slot`, stacked; None where stacked leaves do not make it.

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
    try:
        if tuple(aval_of(many).shape) != (length, *aval_of(one).shape):
            return None
        found = _piece(run, many, length)
    except TypedQaxError:
        return None  # its leaves would describe no array
    if found is None or not Slot.of_abstract(found[0]).same_type(slot):
        return None
    return stacked if found[1] == flags else None


def _piece(run: Run, value: Any, length: int) -> tuple[Any, list[bool]] | None:
    """A slice of an abstract value that has so many, and per leaf whether it is sliced too."""
    if not is_value(value):
        return _jax.of_shape(value, value.shape[1:]), [True]
    batch = batch_shape(value)
    if batch[:1] != (length,):
        return _uniform_piece(run, value)
    batched = batched_fields(value, batch)
    fields: dict[str, Any] = {}
    cut: list[bool] = []
    for name, field in child_values(value):
        found = (field, [False] * len(jax.tree.leaves(field)))
        if name in batched:
            inner = _piece(run, field, length)
            if inner is None:
                return None
            found = inner
        fields[name] = found[0]
        cut += found[1]
    return with_children(value, fields), cut


def _uniform_piece(run: Run, value: Any) -> tuple[Any, list[bool]] | None:
    """The same of an array that one number fills, whatever its shape."""
    is_cut = not field_names(type(value)).children
    if is_cut:
        shape = aval_of(value).shape
        extent = _jax.shaped_array((*shape[1:], 0), value.__dict__[EXTENT].dtype)
        piece = with_children(value, {EXTENT: extent})
    else:
        given = value.__dict__.get("_given_shape")
        if not given:
            return None
        piece = with_children(value, {"_given_shape": given[1:]})
    if not same_filling(run, value, piece):
        return None
    return piece, [is_cut] * len(jax.tree.leaves(value))


def _with_first_axis(aval: Any, length: int) -> Any:
    return _jax.of_shape(aval, (length, *aval.shape))
