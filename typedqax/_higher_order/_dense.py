"""Dense results, where a function with its own derivative ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typedqax import _jax
from typedqax._aval import aval_of, describe
from typedqax._materialization import Materialization, dense_bytes, policy_for
from typedqax._trace import ImplicitTrace, densify
from typedqax._value import is_value

REASON = (
    "a function with its own derivative rule gives dense results, since the rule speaks of those"
)


def dense_results(trace: ImplicitTrace, results: Sequence[Any], primitive: str) -> list[Any]:
    """`results` of a function run under `trace`, dense; what had to become so is said."""
    dense = []
    for result in results:
        value = trace.lower(result)
        if is_value(value):
            operand = describe(value)
            trace.run.materialized(
                Materialization(
                    type(value),
                    operand,
                    dense_bytes(operand, aval_of(value).dtype.itemsize),
                    primitive,
                    (operand,),
                    (REASON,),
                    _jax.source_info(),
                )
            )
            with _jax.under(trace.parent):
                value = densify(value, trace.run)
        dense.append(value)
    return dense


def refuses_dense(value: Any, primitive: str) -> bool:
    """Whether `value` is of a class that must not become dense, here."""
    if not is_value(value):
        return False
    cls = type(value)
    if getattr(cls, "_materialization_policy", "warn") != "error":
        return False
    nbytes = dense_bytes(describe(value), aval_of(value).dtype.itemsize)
    return policy_for(cls, primitive, nbytes) == "error"
