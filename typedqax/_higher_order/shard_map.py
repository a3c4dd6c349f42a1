"""shard_map: implicit arrays go in and come out by their leaves, whole or split by batch axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jax.sharding import PartitionSpec

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of
from typedqax._higher_order._rewrite import (
    Conform,
    Entrance,
    Slot,
    Slots,
    conform_values,
    leaves_of,
    rebuild,
    slots_of,
)
from typedqax._jax import Params, Primitive
from typedqax._stacks import Stack, holds_leafless
from typedqax._trace import ImplicitTrace
from typedqax._value import is_value

REASON = "it is sharded, and its class does not say how its fields are"
REMEDY = "pass it whole to every device, with the spec P()"
JOINED_REASON = "it comes out in shards, and its class does not say how its fields are joined"
JOINED_REMEDY = "let it come out whole, with the spec P()"

Specs: TypeAlias = tuple[Any, ...]


def shard_map(
    trace: ImplicitTrace,
    primitive: Primitive,
    function: Callable[..., Any],
    operands: Sequence[Any],
    params: Params,
) -> Any:
    """Apply a function to shards; it may close over implicit arrays."""
    arguments = [trace.argument_of(operand) for operand in operands]
    values, in_specs = _by_leaves(
        trace,
        primitive,
        [trace.lower(operand) for operand in operands],
        params["in_specs"],
        arguments,
        split_specs,
        (REASON, REMEDY),
    )
    entry = Entrance.of(trace, primitive.name, slots_of(values), arguments)
    came_out: list[tuple[Any, Slots]] = []

    def on_leaves(*leaves: Any) -> Any:
        inner = entry.trace()
        with entry.inside(inner):
            results, out_specs = function(*entry.operands(inner, leaves)).unpack_aux()
        given = list(results)
        kept, specs = _by_leaves(
            inner,
            primitive,
            [inner.lower(result) for result in given],
            out_specs,
            [inner.argument_of(result) for result in given],
            joined_specs,
            (JOINED_REASON, JOINED_REMEDY),
        )
        came_out[:] = [(results.update([None] * len(given)), slots_of(kept))]
        return type(results).flatten(leaves_of(kept)).with_aux(specs)

    leaf_params = dict(
        params,
        subfuns=(on_leaves,),
        in_specs=in_specs,
        debug_info=params["debug_info"].with_unknown_names(),
    )
    leaves = list(_jax.bind_under(trace.parent, primitive, leaves_of(values), leaf_params))
    ((results, slots),) = came_out
    return results.update([trace.lift(value) for value in rebuild(slots, leaves)])


def _by_leaves(
    trace: ImplicitTrace,
    primitive: Primitive,
    values: Sequence[Any],
    specs: Sequence[Any],
    arguments: Sequence[Argument | None],
    specs_of_leaves: Callable[[Any, Any], Specs | None],
    why: tuple[str, str],
) -> tuple[list[Any], Specs]:
    """The values, dense where their leaves have no specs, and the specs of all leaves."""
    kept: list[Any] = []
    flat: list[Any] = []
    with _jax.under(trace.parent):
        for value, spec, argument in zip(values, specs, arguments, strict=True):
            own = specs_of_leaves(value, spec) if is_value(value) else (spec,)
            if own is None:
                conform = Conform.alike((Slot.dense(aval_of(value)),), primitive.name, *why)
                kept += conform_values(trace, [value], [argument], conform)
                flat.append(spec)
            else:
                kept.append(value)
                flat += own
    return kept, tuple(flat)


def split_specs(value: Any, spec: Any) -> Specs | None:
    """The specs of the leaves of `value`, split by `spec`; None where nothing tells them."""
    if spec == PartitionSpec(*[None] * len(spec)):
        return (PartitionSpec(),) * len(jax.tree.leaves(value))
    stack = None if holds_leafless(value) else Stack.of(value)
    says_more = PartitionSpec(*spec) != spec  # than how axes are split: that something is reduced
    if stack is None or says_more or any(axis is not None for axis in spec[stack.rank :]):
        return None
    batch = PartitionSpec(*spec[: stack.rank])
    return tuple([batch if carries else PartitionSpec() for carries in stack.carry])


def joined_specs(value: Any, spec: Any) -> Specs | None:
    """The specs of the leaves of `value`, joined by `spec`; None where nothing tells them.

    What all of a stack share has become a part of each shard, and is not the same for all.
    """
    specs = split_specs(value, spec)
    return None if specs is None or len(set(specs)) > 1 else specs
