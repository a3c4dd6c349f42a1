"""shard_map: replicated implicit arrays stay implicit inside; results are dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of
from typedqax._higher_order._dense import dense_results
from typedqax._higher_order._rewrite import (
    Conform,
    Entry,
    Slot,
    conform_values,
    leaves_of,
    repeat_per_leaf,
    slots_of,
)
from typedqax._jax import Params, Primitive
from typedqax._trace import ImplicitTrace
from typedqax._value import is_value

REASON = "it is sharded, and its class does not say how its fields are"
REMEDY = "pass it whole to every device, with the spec P()"


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
    arguments = [trace.argument_of(operand) for operand in operands]
    with _jax.under(trace.parent):
        values = [
            _conform(trace, primitive, value, argument)
            if is_value(value) and _splits(spec)
            else value
            for value, spec, argument in zip(values, specs, arguments, strict=True)
        ]
    slots = slots_of(values)
    entry = Entry.of(trace, primitive.name, slots, arguments)

    def on_leaves(*leaves: Any) -> Any:
        inner = entry.trace()
        with _jax.under(inner):
            results, out_specs = function(*entry.operands(inner, leaves)).unpack_aux()
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


def _conform(
    trace: ImplicitTrace, primitive: Primitive, value: Any, argument: Argument | None
) -> Any:
    conform = Conform.alike((Slot.dense(aval_of(value)),), primitive.name, REASON, REMEDY)
    return conform_values(trace, [value], [argument], conform)[0]
