"""linear_call: its residuals may be implicit; what it is linear in is dense, and so are results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._call import Call
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    Slots,
    conform_values,
    dense_slot,
    leaves_of,
    rewrite,
    slots_of,
)
from typedqax._jax import ClosedJaxpr
from typedqax._trace import ImplicitTrace

REASON = "what a linear_call is linear in, and what it gives, are dense"
REMEDY = "pass it among the residuals"

Opened: TypeAlias = tuple[ClosedJaxpr, Sequence[Any]]
"""A jaxpr without constants, and what it is to be given in front for those that it had."""


def linear_call(call: Call) -> list[Any]:
    """Apply a linear function that has a transpose of its own."""
    trace, params, name = call.trace, call.params, call.primitive.name
    first = params["num_callee_consts"]
    linear = first + params["num_res"]
    vectors = tuple([dense_slot(slot) for slot in slots_of(call.values[linear:])])
    with _jax.under(trace.parent):
        conform = Conform.alike(vectors, name, REASON, REMEDY)
        given = conform_values(trace, call.values[linear:], call.arguments[linear:], conform)
    callee = params["callee"]
    constants, residuals = call.values[:first], call.values[first:linear]
    opened, leaves = _opened(
        trace, name, callee, constants, slots_of(residuals) + vectors, call.arguments
    )
    results = tuple([Slot.dense(aval) for aval in callee.out_avals])
    leaf_params = dict(
        params,
        callee=opened,
        num_callee_consts=len(leaves),
        num_res=len(leaves_of(residuals)),
        transpose_thunk=_transpose_on_leaves(
            trace,
            name,
            params["transpose_thunk"],
            slots_of(residuals) + results,
            [*call.arguments[first:linear], *[None] * len(results)],
        ),
    )
    with _jax.under(trace.parent):
        known = [_without_tangent(leaf) for leaf in leaves_of(residuals)]
    operands = [*leaves, *known, *given]
    return list(_jax.bind_under(trace.parent, call.primitive, operands, leaf_params))


def _without_tangent(leaf: Any) -> Any:
    """A residual that JAX may be given: none that is differentiated.

    What holds no number may have a tangent all the same: the extent of an array without leaves has.
    """
    return jax.lax.stop_gradient(leaf) if leaf.size == 0 else leaf


def _transpose_on_leaves(
    trace: ImplicitTrace,
    primitive: str,
    transpose: Callable[[], Opened],
    slots: Slots,
    arguments: Sequence[Argument | None],
) -> Callable[[], Opened]:
    """What JAX asks for when it transposes the call: the user's transpose, over leaves."""

    def on_leaves() -> Opened:
        jaxpr, constants = transpose()
        known = [*map(trace.argument_of, constants), *arguments]
        lowered = list(map(trace.lower, constants))
        return _opened(trace, primitive, jaxpr, lowered, slots, known)

    return on_leaves


def _opened(
    trace: ImplicitTrace,
    primitive: str,
    jaxpr: ClosedJaxpr,
    constants: Sequence[Any],
    slots: Slots,
    arguments: Sequence[Argument | None],
) -> Opened:
    """`jaxpr` over leaves, whose first operands are `constants`; its results are dense."""
    dense = tuple([Slot.dense(aval) for aval in jaxpr.out_avals])
    conform = Conform.alike(dense, primitive, REASON, REMEDY)
    rewritten = rewrite(trace, jaxpr, slots_of(constants) + slots, arguments, conform)
    hoisted = _jax.close_jaxpr(_jax.hoist_consts(rewritten.jaxpr))
    return hoisted, [*rewritten.jaxpr.consts, *rewritten.operands(constants)]
