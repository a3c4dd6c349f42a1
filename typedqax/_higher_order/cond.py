"""cond and switch: results on whose type the branches disagree become dense."""

from __future__ import annotations

from functools import reduce
from typing import Any

from typedqax import _jax
from typedqax._higher_order._rewrite import (
    Conform,
    join,
    leaves_of,
    rebuild,
    rewrite,
    slots_of,
)
from typedqax._materialization import Materialization
from typedqax._trace import Call, densify
from typedqax._value import is_value


def cond(call: Call) -> list[Any]:
    """Apply the branches to implicit operands, their results joined."""
    run = call.trace.run
    index, *operands = call.values
    if is_value(index):
        reason = "what decides between branches has to be a number"
        run.materialized(
            Materialization.of(index, call.primitive.name, [reason], operands=call.operands)
        )
        with _jax.under(call.trace.parent):
            index = densify(index, run)
    slots = slots_of(operands)
    branches = call.params["branches"]
    alone = [rewrite(run, branch, slots) for branch in branches]
    joined = reduce(join, [branch.slots for branch in alone])
    if any(branch.slots != joined for branch in alone):
        conform = Conform(joined, call.primitive.name, "the branches give different types")
        alone = [rewrite(run, branch, slots, conform) for branch in branches]
    params = dict(call.params, branches=tuple([branch.jaxpr for branch in alone]))
    results = _jax.bind_under(
        call.trace.parent, call.primitive, [index, *leaves_of(operands)], params
    )
    return rebuild(alone[0].slots, results)
