"""jit: the jaxpr is rewritten over leaves; its name, donation and shardings stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from typedqax import _jax
from typedqax._call import Call
from typedqax._higher_order._rewrite import (
    Slots,
    is_jax_internal,
    rebuild,
    repeat_per_leaf,
    rewrite,
    slots_of,
)
from typedqax._value import is_value


def jit(call: Call) -> list[Any]:
    """Apply a jitted function.

    One that JAX would inline is inlined here, but where it is staged: there JAX does it, so that a
    function that is called again is neither rewritten nor differentiated again.
    """
    params = call.params
    jaxpr = params["jaxpr"]
    trace = call.trace
    if _jax.jit_inlines(params) and not _jax.is_staged(trace.parent):
        with _jax.under(trace):
            results = _jax.eval_jaxpr(
                jaxpr.jaxpr,
                jaxpr.consts,
                *map(trace.lift, call.values, call.arguments),
                propagate_source_info=not is_jax_internal(jaxpr),
            )
        call.result_arguments = [trace.argument_of(result) for result in results]
        with _jax.under(trace.parent):
            return [_as_array(trace.lower(result)) for result in results]
    slots = slots_of(call.values)
    rewritten = rewrite(trace, jaxpr, slots, call.arguments)
    call.result_arguments = rewritten.arguments
    count = len(rewritten.captured)
    leaf_params = dict(
        params,
        jaxpr=rewritten.jaxpr,
        donated_invars=(False,) * count + repeat_per_leaf(params["donated_invars"], slots),
        in_shardings=(_jax.UNSPECIFIED,) * count
        + _per_leaf(params["in_shardings"], slots, _jax.UNSPECIFIED),
        in_layouts=(None,) * count + _per_leaf(params["in_layouts"], slots, None),
        out_shardings=_per_leaf(params["out_shardings"], rewritten.slots, _jax.UNSPECIFIED),
        out_layouts=_per_leaf(params["out_layouts"], rewritten.slots, None),
    )
    operands = rewritten.operands(call.values)
    results = _jax.bind_under(trace.parent, call.primitive, operands, leaf_params)
    return rebuild(rewritten.slots, results)


def _as_array(value: Any) -> Any:
    """`value`; an array where the jaxpr gives a number that stands in it."""
    return value if isinstance(value, jax.Array) or is_value(value) else jnp.asarray(value)


def _per_leaf(items: Sequence[Any], slots: Slots, unspecified: Any) -> tuple[Any, ...]:
    """What was said of each array, for its leaves.

    That an array is whole on every device holds of its leaves too; how it is split, or laid out in
    memory, says nothing of them.
    """
    return repeat_per_leaf(
        [
            (_whole(item) or unspecified) if slot.implicit else item
            for item, slot in zip(items, slots, strict=True)
        ],
        slots,
    )


def _whole(item: Any) -> Any:
    """`item` for an array of any rank, if it is a sharding that does not split."""
    if isinstance(item, NamedSharding) and item.is_fully_replicated:
        return NamedSharding(item.mesh, PartitionSpec(), memory_kind=item.memory_kind)
    return None
