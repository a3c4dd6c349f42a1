"""remat_opt: a vjp rule's forward pass that a checkpoint may take back to the function itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._call import Call
from typedqax._higher_order._dense import REASON, REMEDY
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    Slots,
    draft,
    rebuild,
    rewrite,
    slots_of,
)
from typedqax._jax import ClosedJaxpr, Jaxpr
from typedqax._trace import ImplicitTrace


def remat_opt(call: Call) -> list[Any]:
    """Apply the forward pass to implicit operands; its residuals may be implicit, too."""
    params, forward = call.params, call.params["fwd_jaxpr"]
    slots, residuals = slots_of(call.values), params["num_res"]
    kept = draft(call.trace, forward, slots, call.arguments).slots[:residuals]
    results = _dense(forward.out_avals[residuals:])
    conform = Conform.alike(kept + results, "custom_vjp_call", REASON, REMEDY)
    rewritten = rewrite(call.trace, forward, slots, call.arguments, conform)
    consts = slots[: params["num_consts"]]
    leaf_params = dict(
        params,
        fwd_jaxpr=rewritten.jaxpr,
        num_res=sum(len(slot.avals) for slot in kept),
        num_consts=len(rewritten.captured) + sum(len(slot.avals) for slot in consts),
        fun_jaxpr_thunk=_function_over_leaves(
            call.trace,
            params["fun_jaxpr_thunk"],
            slots[len(consts) :],
            call.arguments[len(consts) :],
            results,
        ),
    )
    with _jax.under(call.trace.parent):
        leaves = _jax.bind(call.primitive, rewritten.operands(call.values), leaf_params)
    return rebuild(kept + results, leaves)


def _dense(avals: Sequence[Any]) -> Slots:
    return tuple([Slot.dense(aval) for aval in avals])


def _function_over_leaves(
    trace: ImplicitTrace,
    function: Callable[[], tuple[Jaxpr, Sequence[Any]]],
    slots: Slots,
    arguments: Sequence[Argument | None],
    results: Slots,
) -> Callable[[], tuple[Jaxpr, Sequence[Any]]]:
    """What JAX asks for where no residual is used: the function itself, over leaves."""

    def over_leaves() -> tuple[Jaxpr, Sequence[Any]]:
        jaxpr, consts = function()
        lowered = [trace.lower(const) for const in consts]
        hoisted = _jax.close_jaxpr(_jax.hoist_consts(ClosedJaxpr(jaxpr, list(consts))))
        conform = Conform.alike(results, "custom_vjp_call", REASON, REMEDY)
        all_slots = (*slots_of(lowered), *slots)
        all_arguments = [*[trace.argument_of(const) for const in consts], *arguments]
        rewritten = rewrite(trace, hoisted, all_slots, all_arguments, conform)
        leaves = rewritten.operands(lowered)
        opened = _jax.with_leading_consts(rewritten.jaxpr.jaxpr, len(leaves))
        return opened, [*rewritten.jaxpr.consts, *leaves]

    return over_leaves
