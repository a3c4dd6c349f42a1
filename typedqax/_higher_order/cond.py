"""cond and switch: results on whose type the branches disagree become dense."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._rewrite import (
    Conform,
    Rewritten,
    draft,
    forbidden_in,
    join,
    leaves_of,
    rebuild,
    rewrite,
    slots_of,
)
from typedqax._jax import ClosedJaxpr
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
    captured = list({id(each): each for branch in rewritten for each in branch.captured}.values())
    params = dict(call.params, branches=tuple([_given(captured, each) for each in rewritten]))
    leaves = [index, *captured, *leaves_of(operands)]
    results = _jax.bind_under(call.trace.parent, call.primitive, leaves, params)
    return rebuild(joined, results)


def _given(captured: list[Any], branch: Rewritten) -> ClosedJaxpr:
    """The jaxpr of `branch`, given what all branches captured: their operands are the same."""
    if not captured:
        return branch.jaxpr
    places = [next(i for i, each in enumerate(captured) if each is own) for own in branch.captured]

    def given_all(*operands: Any) -> list[Any]:
        own = [operands[place] for place in places]
        return _jax.eval_jaxpr(
            branch.jaxpr.jaxpr, branch.jaxpr.consts, *own, *operands[len(captured) :]
        )

    avals = [*map(jax.typeof, captured), *branch.jaxpr.in_avals[len(places) :]]
    traced = _jax.trace_to_jaxpr(given_all, avals, _jax.jaxpr_debug_info(branch.jaxpr))
    return _jax.close_jaxpr(traced.jaxpr, traced.consts)
