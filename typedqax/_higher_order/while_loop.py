"""while: the loop stays a loop; a carry that changes type in it becomes dense before it starts."""

from __future__ import annotations

from typing import Any

from typedqax import _jax
from typedqax._higher_order._carry import settle_carry
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    Slots,
    conform_value,
    leaves_of,
    rebuild,
    rewrite,
    slots_of,
)
from typedqax._trace import Call

REASON = "the loop's body gives another type than it takes"


def while_loop(call: Call) -> list[Any]:
    """Apply a while loop to implicit operands."""
    run, params = call.trace.run, call.params
    cond_count, body_count = params["cond_nconsts"], params["body_nconsts"]
    cond_consts = call.values[:cond_count]
    body_consts = call.values[cond_count : cond_count + body_count]
    initial = call.values[cond_count + body_count :]
    cond_slots, body_slots = slots_of(cond_consts), slots_of(body_consts)
    body, test = params["body_jaxpr"], params["cond_jaxpr"]

    def body_results(carry: Slots) -> Slots:
        return rewrite(run, body, body_slots + carry).slots

    carry = settle_carry(slots_of(initial), body_results)
    conform = Conform(carry, call.primitive.name, REASON)
    with _jax.under(call.trace.parent):
        initial = [
            conform_value(run, value, slot, conform)
            for value, slot in zip(initial, carry, strict=True)
        ]
    new_body = rewrite(run, body, body_slots + carry, conform)
    new_test = rewrite(run, test, cond_slots + carry, _dense_predicate(test, call.primitive.name))
    leaf_params = dict(
        params,
        cond_nconsts=sum(len(slot.avals) for slot in cond_slots),
        body_nconsts=sum(len(slot.avals) for slot in body_slots),
        cond_jaxpr=new_test.jaxpr,
        body_jaxpr=new_body.jaxpr,
    )
    leaves = leaves_of([*cond_consts, *body_consts, *initial])
    results = _jax.bind_under(call.trace.parent, call.primitive, leaves, leaf_params)
    return rebuild(carry, results)


def _dense_predicate(test: Any, primitive: str) -> Conform:
    return Conform(
        tuple([Slot.dense(aval) for aval in test.out_avals]),
        primitive,
        "what decides whether a loop goes on has to be a number",
    )
