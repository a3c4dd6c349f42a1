"""custom_linear_solve: its functions close over implicit arrays; its vectors are dense."""

from __future__ import annotations

from typing import Any

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    conform_value,
    leaves_of,
    rewrite,
    slots_of,
)
from typedqax._jax import ClosedJaxpr
from typedqax._trace import Call
from typedqax._value import is_value


def linear_solve(call: Call) -> list[Any]:
    """Apply a linear solve whose functions close over implicit arrays."""
    run, lengths, jaxprs = call.trace.run, call.params["const_lengths"], call.params["jaxprs"]
    values = list(call.values)
    consts: list[list[Any]] = []
    for length in lengths:
        consts.append(values[:length])
        values = values[length:]
    vectors = [Slot.dense(aval_of(v)) if is_value(v) else Slot.of(v) for v in values]
    name, reason = call.primitive.name, "the vectors of a linear solve are dense"
    with _jax.under(call.trace.parent):
        conform = Conform(tuple(vectors), name, reason)
        values = [
            conform_value(run, value, slot, conform)
            for value, slot in zip(values, vectors, strict=True)
        ]
    rewritten: list[ClosedJaxpr | None] = []
    for jaxpr, captured in zip(jaxprs, consts, strict=True):
        if jaxpr is None:
            rewritten.append(None)
            continue
        dense = Conform(tuple([Slot.dense(aval) for aval in jaxpr.out_avals]), name, reason)
        rewritten.append(rewrite(run, jaxpr, (*slots_of(captured), *vectors), dense).jaxpr)
    params = dict(
        call.params,
        const_lengths=type(lengths)(*[len(leaves_of(captured)) for captured in consts]),
        jaxprs=type(jaxprs)(*rewritten),
    )
    leaves = [*[leaf for captured in consts for leaf in leaves_of(captured)], *values]
    return list(_jax.bind_under(call.trace.parent, call.primitive, leaves, params))
