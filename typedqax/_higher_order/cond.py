"""cond and switch: results on whose type the branches disagree become dense."""

from __future__ import annotations

from functools import reduce
from typing import Any

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._rewrite import (
    Conform,
    draft,
    forbidden_in,
    join,
    leaves_of,
    rebuild,
    rewrite,
    slots_of,
    with_captures_of_all,
)
from typedqax._materialization import Materialization
from typedqax._trace import densify
from typedqax._value import is_value

REASON = "the branches give different types"
REMEDY = "let every branch give an array of the same class"


def cond(call: Call) -> list[Any]:
    """Apply the branches to implicit operands, their results joined."""
    run = call.trace.run
    index, *operands = call.values
    decides, *arguments = call.arguments
    if is_value(index):
        reason = "what decides between branches has to be a number"
        run.happened(
            Materialization.of(
                index,
                call.primitive.name,
                [reason],
                source=call.trace.place(),
                operands=call.operands,
                argument=decides,
                remedy="let what decides be a dense number",
            )
        )
        with _jax.under(call.trace.parent):
            index = densify(index, run, decides, call.primitive.name)
    slots = slots_of(operands)
    branches = call.params["branches"]
    alone = [draft(call.trace, branch, slots, arguments) for branch in branches]
    for branch in alone:  # if they join in a dense array, that may be why
        for event in forbidden_in(branch.events):
            run.happened(event)
    joined = reduce(join, [branch.slots for branch in alone])
    conform = Conform.alike(joined, call.primitive.name, REASON, REMEDY)
    rewritten = [rewrite(call.trace, branch, slots, arguments, conform) for branch in branches]
    params = dict(call.params, branches=tuple(with_captures_of_all(rewritten)))
    captured = [each for branch in rewritten for each in branch.captured]
    leaves = [index, *captured, *leaves_of(operands)]
    results = _jax.bind_under(call.trace.parent, call.primitive, leaves, params)
    return rebuild(joined, results)
