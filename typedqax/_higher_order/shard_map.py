"""shard_map: replicated implicit arrays stay implicit inside; results are dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._higher_order._dense import dense_results
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    conform_value,
    leaves_of,
    rebuild,
    repeat_per_leaf,
    slots_of,
)
from typedqax._jax import Params, Primitive
from typedqax._trace import ImplicitTrace
from typedqax._value import is_value

REASON = "it is sharded, and its class does not say how its fields are"


def shard_map(
    trace: ImplicitTrace,
    primitive: Primitive,
    function: Callable[..., Any],
    operands: Sequence[Any],
    params: Params,
) -> Any:
    """Apply a function to shards; it may close over implicit arrays."""
    values = [trace.lower(operand) for operand in operands]
    specs = params["in_specs"]
    with _jax.under(trace.parent):
        values = [
            _conform(trace, primitive, value) if is_value(value) and _splits(spec) else value
            for value, spec in zip(values, specs, strict=True)
        ]
    slots = slots_of(values)

    def on_leaves(*leaves: Any) -> Any:
        inner = ImplicitTrace(_jax.current_trace(), trace.run)
        with _jax.under(inner):
            results, out_specs = function(
                *[inner.lift(value) for value in rebuild(slots, leaves)]
            ).unpack_aux()
        dense = dense_results(inner, list(results), primitive.name)
        return results.update(dense).with_aux(out_specs)

    leaf_params = dict(
        params,
        subfuns=(on_leaves,),
        in_specs=repeat_per_leaf(specs, slots),
        debug_info=params["debug_info"].with_unknown_names(),
    )
    return _jax.bind_under(trace.parent, primitive, leaves_of(values), leaf_params)


def _splits(spec: Any) -> bool:
    return bool(spec != PartitionSpec(*[None] * len(spec)))


def _conform(trace: ImplicitTrace, primitive: Primitive, value: Any) -> Any:
    slot = Slot.dense(aval_of(value))
    return conform_value(trace.run, value, slot, Conform((slot,), primitive.name, REASON))
