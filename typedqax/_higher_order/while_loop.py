"""while: the loop stays a loop; a carry that changes type in it becomes dense before it starts."""

from __future__ import annotations

from typing import Any

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._carry import REMEDY, settle_carry
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    conform_values,
    draft,
    leaves_of,
    rebuild,
    rewrite,
    slots_of,
    through,
)


def while_loop(call: Call) -> list[Any]:
    """Apply a while loop to implicit operands."""
    params = call.params
    cond_count, body_count = params["cond_nconsts"], params["body_nconsts"]
    cond_consts = call.values[:cond_count]
    body_consts = call.values[cond_count : cond_count + body_count]
    initial = call.values[cond_count + body_count :]
    cond_known = call.arguments[:cond_count]
    known = call.arguments[cond_count + body_count :]
    cond_slots, body_slots = slots_of(cond_consts), slots_of(body_consts)
    body, test, name = params["body_jaxpr"], params["cond_jaxpr"], call.primitive.name
    trace, inside = call.trace, through(name, known)
    body_known = [*call.arguments[cond_count : cond_count + body_count], *inside]

    carry, reasons = settle_carry(
        call, slots_of(initial), lambda carry: draft(trace, body, body_slots + carry, body_known)
    )
    conform = Conform(carry, name, reasons, (REMEDY,) * len(carry))
    with _jax.under(trace.parent):
        initial = conform_values(trace, initial, known, conform)
    new_body = rewrite(trace, body, body_slots + carry, body_known, conform)
    predicate = _dense_predicate(test, name)
    new_test = rewrite(trace, test, cond_slots + carry, [*cond_known, *inside], predicate)
    test_consts, loop_consts = new_test.operands(cond_consts), new_body.operands(body_consts)
    leaf_params = dict(
        params,
        cond_nconsts=len(test_consts),
        body_nconsts=len(loop_consts),
        cond_jaxpr=_jax.with_blank_names(new_test.jaxpr),
        body_jaxpr=new_body.jaxpr,
    )
    leaves = [*test_consts, *loop_consts, *leaves_of(initial)]
    results = _jax.bind_under(call.trace.parent, call.primitive, leaves, leaf_params)
    return rebuild(carry, results)


def _dense_predicate(test: Any, primitive: str) -> Conform:
    return Conform.alike(
        tuple([Slot.dense(aval) for aval in test.out_avals]),
        primitive,
        "what decides whether a loop goes on has to be a number",
        "let the loop's condition give a dense bool",
    )
