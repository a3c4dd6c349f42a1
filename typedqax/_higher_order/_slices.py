"""Slices of implicit arrays along their first axis, and stacks of them, made on their leaves.

Slicing the leaves slices the array where the first axis is a batch axis, and where one number fills
the array whatever its shape. Nothing else is taken for granted: the slices of a leaf `x` are not
those of an array that stands for `x.T`, nor is a slice of `arange` an `arange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._errors import TypedQaxError
from typedqax._higher_order._rewrite import Slot
from typedqax._stacks import carriers, takes_batch_axes
from typedqax._trace import Run
from typedqax._uniform import same_filling
from typedqax._value import EXTENT, field_names, with_children


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
    slot = Slot.of(value)
    if not slot.implicit:
        return Slices(Slot(slot.tree, (_without_first_axis(slot.avals[0]),)), (True,))
    whole = slot.stand_in()
    length = aval_of(whole).shape[0]
    cut = carriers(whole, (length,))
    if cut is not None:
        avals = [
            _without_first_axis(aval) if sliced else aval
            for aval, sliced in zip(slot.avals, cut, strict=True)
        ]
        return Slices(Slot(slot.tree, tuple(avals)), tuple(cut))
    piece = _uniform_piece(whole)
    if piece is None or not same_filling(run, whole, piece):
        return None
    is_cut = not field_names(type(whole)).children
    return Slices(Slot.of_abstract(piece), (is_cut,) * len(slot.avals))


def stack_of(run: Run, slot: Slot, length: int, carry: Sequence[bool] | None = None) -> Slot | None:
    """The slot of `length` values of `slot`, stacked; None where stacked leaves do not make it.

    Each leaf is stacked, or those that are to `carry` the new axis, and the values share the rest.
    """
    flags = (True,) * len(slot.avals) if carry is None else carry
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
        if takes_batch_axes(one):
            return stacked if all(flags) or carriers(many, (length,)) == list(flags) else None
    except TypedQaxError:
        return None  # its leaves would describe no array
    return stacked if all(flags) and same_filling(run, one, many) else None


def _without_first_axis(aval: Any) -> Any:
    return _jax.of_shape(aval, aval.shape[1:])


def _with_first_axis(aval: Any, length: int) -> Any:
    return _jax.of_shape(aval, (length, *aval.shape))


# --- one number everywhere -----------------------------------------------------------------------


def _uniform_piece(value: Any) -> Any:
    """`value` with its first axis left out of the shape that it was given."""
    if not field_names(type(value)).children:
        shape = aval_of(value).shape
        extent = _jax.shaped_array((*shape[1:], 0), value.__dict__[EXTENT].dtype)
        return with_children(value, {EXTENT: extent})
    given = value.__dict__.get("_given_shape")
    return with_children(value, {"_given_shape": given[1:]}) if given else None
