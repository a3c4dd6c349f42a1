"""checkpoint: the body is rewritten over leaves; its policy stays."""

from __future__ import annotations

from typing import Any

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._rewrite import rebuild, rewrite, slots_of


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
        first = len(consts) + len(rewritten.captured)
        params["prevent_cse"] = (*[False] * first, *per_leaf)
    with _jax.under(call.trace.parent):
        operands = [*consts, *rewritten.operands(call.values)]
        results = _jax.bind(call.primitive, operands, params)
    return rebuild(rewritten.slots, results)
