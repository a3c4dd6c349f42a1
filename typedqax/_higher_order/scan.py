"""scan: slices of implicit arrays are implicit where each leaf can be sliced, and so are stacks."""

from __future__ import annotations

from typing import Any

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of
from typedqax._call import Call
from typedqax._higher_order._carry import REMEDY, settle_carry
from typedqax._higher_order._rewrite import (
    Conform,
    Rewritten,
    Slot,
    Slots,
    conform_values,
    dense_slot,
    draft,
    leaves_of,
    rebuild,
    reordered,
    rewrite,
    slots_of,
    through,
)
from typedqax._higher_order._slices import Slices, Unsliced, slices_of, stack_of
from typedqax._trace import ImplicitTrace
from typedqax._value import is_value

UNSLICED = "slices of its fields do not make slices of it"
TAKING = "take the slices in the loop, as in x[i], with handlers for what takes them"
UNSTACKED = "stacks of its fields do not make a stack of it"
GIVING = "give its fields as results of the loop, and make the array of their stacks"


def scan(call: Call) -> list[Any]:
    """Apply a scan to implicit constants, carries and scanned arrays."""
    trace, params, name = call.trace, call.params, call.primitive.name
    length, body = params["length"], params["jaxpr"]
    consts, initial, xs = _split(call.values, params["num_consts"], params["num_carry"])
    of_consts, of_carry, of_xs = _split(call.arguments, len(consts), len(initial))
    with _jax.under(trace.parent):
        pairs = [_sliceable(trace, x, of_x, name) for x, of_x in zip(xs, of_xs, strict=True)]
    xs, slices = [x for x, _ in pairs], [each for _, each in pairs]
    known = [*of_consts, *through(name, [*of_carry, *of_xs])]
    const_slots, x_slots = slots_of(consts), tuple([each.slot for each in slices])

    def drafted(carry: Slots) -> Rewritten:
        return draft(trace, body, const_slots + carry + x_slots, known)

    carry, reasons = settle_carry(call, slots_of(initial), drafted)
    ys = drafted(carry).slots[len(carry) :]
    with _jax.under(trace.parent):
        stacks = [stack_of(trace.run, y, length) for y in ys]
    y_slots, whys, remedies = [], [], []
    for y, stack in zip(ys, stacks, strict=True):
        unsliced = stack if isinstance(stack, Unsliced) else Unsliced()
        y_slots.append(dense_slot(y) if unsliced is stack else y)
        whys.append((unsliced.told(UNSTACKED),))
        remedies.append(unsliced.annotating or GIVING)
    kept = (REMEDY,) * len(carry)
    conform = Conform((*carry, *y_slots), name, (*reasons, *whys), (*kept, *remedies))
    new_body = rewrite(trace, body, const_slots + carry + x_slots, known, conform)
    with _jax.under(trace.parent):
        initial = conform_values(trace, initial, of_carry, Conform(carry, name, reasons, kept))
    return _bind(call, new_body, consts, initial, xs, slices, (*carry, *y_slots))


def _bind(
    call: Call,
    rewritten: Rewritten,
    consts: list[Any],
    initial: list[Any],
    xs: list[Any],
    slices: list[Slices],
    out: Slots,
) -> list[Any]:
    """The scan over leaves: what all slices of an array share is a constant of it."""
    x_leaves, cut = leaves_of(xs), [flag for each in slices for flag in each.cut]
    shared = [leaf for leaf, sliced in zip(x_leaves, cut, strict=True) if not sliced]
    scanned = [leaf for leaf, sliced in zip(x_leaves, cut, strict=True) if sliced]
    body, const_leaves = rewritten.jaxpr, rewritten.operands(consts)
    carry_leaves = leaves_of(initial)
    if shared:
        first = len(const_leaves) + len(carry_leaves)
        places = range(first, first + len(cut))
        body = reordered(
            body,
            (
                *range(len(const_leaves)),
                *[place for place, sliced in zip(places, cut, strict=True) if not sliced],
                *range(len(const_leaves), first),
                *[place for place, sliced in zip(places, cut, strict=True) if sliced],
            ),
        )
    params = dict(
        call.params,
        jaxpr=body,
        num_consts=len(const_leaves) + len(shared),
        num_carry=len(carry_leaves),
    )
    leaves = [*const_leaves, *shared, *carry_leaves, *scanned]
    results = _jax.bind_under(call.trace.parent, call.primitive, leaves, params)
    return rebuild(out, results)


def _split(values: Any, num_consts: int, num_carry: int) -> tuple[list[Any], list[Any], list[Any]]:
    values = list(values)
    first = num_consts + num_carry
    return values[:num_consts], values[num_consts:first], values[first:]


def _sliceable(
    trace: ImplicitTrace, x: Any, argument: Argument | None, primitive: str
) -> tuple[Any, Slices]:
    """`x`, made dense if it has to be, and its slices."""
    slices = slices_of(trace.run, x)
    if isinstance(slices, Unsliced) and is_value(x):
        slot = Slot.dense(aval_of(x))
        reason, remedy = slices.told(UNSLICED), slices.annotating or TAKING
        conform = Conform.alike((slot,), primitive, reason, remedy)
        (x,) = conform_values(trace, [x], [argument], conform)
        slices = slices_of(trace.run, x)
    if isinstance(slices, Slices):
        return x, slices
    raise AssertionError("a dense array can be sliced")
