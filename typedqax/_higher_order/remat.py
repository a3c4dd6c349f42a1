"""checkpoint: the body is rewritten over leaves; its policy stays."""

from __future__ import annotations

from typing import Any

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._rewrite import leaves_of, rebuild, rewrite, slots_of


def remat(call: Call) -> list[Any]:
    """Apply a checkpointed function to implicit operands."""
    slots = slots_of(call.values)
    closed = _jax.close_jaxpr(call.params["jaxpr"])
    rewritten = rewrite(call.trace, closed, slots, call.arguments)
    call.result_arguments = rewritten.arguments
    consts = list(rewritten.jaxpr.consts)
    params = dict(call.params, jaxpr=_jax.hoist_consts(rewritten.jaxpr))
    cse = params["prevent_cse"]
    if not isinstance(cse, bool):
        per_leaf = [flag for flag, slot in zip(cse, slots, strict=True) for _ in slot.avals]
        params["prevent_cse"] = (*[False] * len(consts), *per_leaf)
    with _jax.under(call.trace.parent):
        results = _jax.bind(call.primitive, [*consts, *leaves_of(call.values)], params)
    return rebuild(rewritten.slots, results)
