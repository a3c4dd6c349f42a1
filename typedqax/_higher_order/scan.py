"""scan: slices of implicit arrays are implicit where each leaf can be sliced, and so are stacks."""

from __future__ import annotations

from typing import Any

import jax

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._errors import TypedQaxError
from typedqax._higher_order._carry import settle_carry
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    Slots,
    conform_value,
    dense_slot,
    leaves_of,
    rebuild,
    rewrite,
    slots_of,
)
from typedqax._higher_order.while_loop import REASON
from typedqax._trace import Call


def scan(call: Call) -> list[Any]:
    """Apply a scan to implicit constants, carries and scanned arrays."""
    run, params = call.trace.run, call.params
    consts, initial, xs = _split(call.values, params["num_consts"], params["num_carry"])
    length, body = params["length"], params["jaxpr"]
    const_slots, x_slots = slots_of(consts), tuple([_slice_slot(x, length) for x in xs])

    def body_slots(carry: Slots) -> Slots:
        return const_slots + carry + x_slots

    def carry_results(carry: Slots) -> Slots:
        return rewrite(run, body, body_slots(carry)).slots[: len(carry)]

    carry = settle_carry(slots_of(initial), carry_results)
    y_slots = tuple(
        [
            slot if _stacks(slot, length) else dense_slot(slot)
            for slot in rewrite(run, body, body_slots(carry)).slots[len(carry) :]
        ]
    )
    name = call.primitive.name
    new_body = rewrite(run, body, body_slots(carry), Conform(carry + y_slots, name, REASON))
    with _jax.under(call.trace.parent):
        initial = [
            conform_value(run, value, slot, Conform(carry, name, REASON))
            for value, slot in zip(initial, carry, strict=True)
        ]
        unsliced = Conform(x_slots, name, "its fields cannot all be sliced along their first axis")
        xs = [
            x if slot.implicit else conform_value(run, x, Slot.dense(jax.typeof(0.0)), unsliced)
            for x, slot in zip(xs, x_slots, strict=True)
        ]
    leaf_params = dict(
        params,
        jaxpr=new_body.jaxpr,
        num_consts=sum(len(slot.avals) for slot in const_slots),
        num_carry=sum(len(slot.avals) for slot in carry),
    )
    leaves = leaves_of([*consts, *initial, *xs])
    results = _jax.bind_under(call.trace.parent, call.primitive, leaves, leaf_params)
    return rebuild(carry + y_slots, results)


def _split(values: Any, num_consts: int, num_carry: int) -> tuple[list[Any], list[Any], list[Any]]:
    values = list(values)
    first = num_consts + num_carry
    return values[:num_consts], values[num_consts:first], values[first:]


def _slice_slot(value: Any, length: int) -> Slot:
    """The slot of one slice of `value`: dense unless slicing each leaf slices the array."""
    whole = Slot.of(value)
    if not whole.implicit:
        aval = whole.avals[0]
        return Slot(whole.tree, (_without_first_axis(aval),))
    aval = aval_of(value)
    sliceable = all(leaf.shape[:1] == (length,) for leaf in whole.avals)
    if sliceable:
        piece = Slot(whole.tree, tuple([_without_first_axis(leaf) for leaf in whole.avals]))
        if _dense_shape(piece) == aval.shape[1:]:
            return piece
    return Slot.dense(_without_first_axis(aval))


def _stacks(slot: Slot, length: int) -> bool:
    """Whether stacking the leaves of values of `slot` stacks the arrays they stand for."""
    if not slot.implicit:
        return True
    stacked = Slot(slot.tree, tuple([a.update(shape=(length, *a.shape), sharding=None) for a in slot.avals]))
    return _dense_shape(stacked) == (length, *(_dense_shape(slot) or ()))


def _dense_shape(slot: Slot) -> tuple[int, ...] | None:
    """The shape a value of `slot` would have; None where its leaves would describe none."""
    try:
        return tuple(dense_slot(slot).avals[0].shape)
    except TypedQaxError:
        return None


def _without_first_axis(aval: Any) -> Any:
    return aval.update(shape=aval.shape[1:], sharding=None)
