"""custom_vmap: implicit operands go in by their leaves; the user's rule gets stacks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._dense import dense_results
from typedqax._higher_order._rewrite import (
    Conform,
    Entrance,
    Slot,
    rewrite,
    slots_of,
)
from typedqax._higher_order._slices import Unsliced, stack_of
from typedqax._materialization import Materialization
from typedqax._trace import ImplicitTrace, densify
from typedqax._value import is_value

REASON = "a function with its own vmap rule gives dense results, since the rule speaks of those"
REMEDY = "take the rule away"
UNSTACKED = "stacks of its fields do not make a stack of it that the vmap rule could be given"
GIVING = "give its fields to the function, and make the array there"


def custom_vmap(call: Call) -> list[Any]:
    """Apply a function with its own vmap rule; its results are dense, so that the rule can stay."""
    trace, params, name = call.trace, call.params, call.primitive.name
    slots = slots_of(call.values)
    function = params["call"]
    dense = Conform.alike(
        tuple([Slot.dense(aval) for aval in function.out_avals]), name, REASON, REMEDY
    )
    rewritten = rewrite(trace, function, slots, call.arguments, dense)
    entry = Entrance.of(trace, name, slots, call.arguments)
    leaves = rewritten.operands(call.values)
    leaf_params = dict(
        params,
        call=rewritten.jaxpr,
        rule=_RuleOnLeaves(params["rule"], params["in_tree"], entry, len(rewritten.captured)),
        in_tree=jax.tree.structure((0,) * len(leaves)),
    )
    return list(_jax.bind_under(trace.parent, call.primitive, leaves, leaf_params))


class _RuleOnLeaves:
    """The user's rule, for the leaves of its operands, which come after what was captured."""

    def __init__(
        self, rule: Callable[..., Any], in_tree: Any, entry: Entrance, captured: int
    ) -> None:
        self.rule = rule
        self.in_tree = in_tree
        self.entry = entry
        self.captured = captured
        self.__name__ = getattr(rule, "__name__", "vmap rule")  # JAX tells it in its errors

    def __str__(self) -> str:
        return str(self.rule)

    def __call__(self, size: int, batched: Sequence[bool], *leaves: Any) -> tuple[Any, Any]:
        entry, operands, flags, start = self.entry, list[Any](), list[bool](), self.captured
        trace = entry.trace()
        for slot, argument in zip(entry.slots, entry.arguments, strict=True):
            stop = start + len(slot.avals)
            own = list(batched[start:stop])
            value = _stack(trace, slot, leaves[start:stop], own, size, entry.primitive)
            operands.append(trace.lift(value, argument))
            flags.append(any(own))
            start = stop
        args = jax.tree.unflatten(self.in_tree, operands)
        in_batched = list(jax.tree.unflatten(self.in_tree, flags))
        with entry.inside(trace):
            out, out_batched = self.rule(size, in_batched, *args)
        results, tree = jax.tree.flatten(out, is_leaf=is_value)
        results = [trace.lift_made(result) for result in results]
        dense = dense_results(trace, results, entry.primitive, REASON, REMEDY)
        return jax.tree.unflatten(tree, dense), out_batched


def _stack(
    trace: ImplicitTrace,
    slot: Slot,
    leaves: Sequence[Any],
    batched: list[bool],
    size: int,
    primitive: str,
) -> Any:
    """What the leaves of an operand are, of which some have a first axis of this size."""
    value = jax.tree.unflatten(slot.tree, leaves)
    if not slot.implicit or not any(batched):
        return value
    run, source = trace.run, trace.place()
    stack = stack_of(run, slot, size, batched)
    if not isinstance(stack, Unsliced):
        return value
    one = slot.stand_in()
    reason, remedy = stack.told(UNSTACKED), stack.annotating or GIVING
    run.happened(Materialization.of(one, primitive, [reason], source=source, remedy=remedy))

    def dense_one(*leaves: Any) -> jax.Array:
        return densify(jax.tree.unflatten(slot.tree, leaves), run, None, primitive)

    axes = tuple([0 if flag else None for flag in batched])
    with _jax.under(trace.parent):
        dense: jax.Array = jax.vmap(dense_one, in_axes=axes)(*leaves)
    return dense
