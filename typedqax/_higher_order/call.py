"""core.call: a function call that JAX kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typedqax import _jax
from typedqax._higher_order._rewrite import Entrance, leaves_of, rebuild, slots_of
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
    entry = Entrance.of(trace, primitive.name, slots_of(values), map(trace.argument_of, operands))
    on_leaves, results = _jax.transform_wrapped_with_aux(_on_leaves, _jax.unnamed(function), entry)
    leaf_params = dict(params, subfuns=(on_leaves,))
    leaves = _jax.bind_under(trace.parent, primitive, leaves_of(values), leaf_params)
    return [trace.lift(value) for value in rebuild(results(), leaves)]


def _on_leaves(
    function: Callable[..., Sequence[Any]], store: Any, entry: Entrance, *leaves: Any
) -> list[Any]:
    trace = entry.trace()
    with entry.inside(trace):
        results = function(*entry.operands(trace, leaves))
    values = [trace.lower(result) for result in results]
    store.store(slots_of(values))
    return leaves_of(values)
