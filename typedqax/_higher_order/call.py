"""core.call: a function call that JAX kept; its results are dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typedqax import _jax
from typedqax._higher_order._rewrite import leaves_of, slots_of
from typedqax._higher_order.custom_jvp import run_on_leaves
from typedqax._jax import Params, Primitive, WrappedFun
from typedqax._trace import ImplicitTrace


def call(
    trace: ImplicitTrace,
    primitive: Primitive,
    function: WrappedFun,
    operands: Sequence[Any],
    params: Params,
) -> list[Any]:
    """Apply a called function to implicit operands."""
    values = [trace.lower(operand) for operand in operands]
    on_leaves = _jax.transform_wrapped(run_on_leaves, function, trace.run, slots_of(values))
    leaf_params = dict(params, subfuns=(on_leaves,))
    return list(_jax.bind_under(trace.parent, primitive, leaves_of(values), leaf_params))
