"""Dense results, where a function with its own derivative ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from typedqax import _jax
from typedqax._materialization import Materialization, loses_meaning
from typedqax._trace import ImplicitTrace, densify
from typedqax._value import child_values, is_value

REASON = (
    "a function with its own derivative rule gives dense results, since the rule speaks of those"
)
REMEDY = (
    'take the rule away, or define the class with materialization="error", whose arrays run '
    "through the function's body and its handlers instead"
)


COTANGENT_REASON = "the cotangents that a derivative rule gives are those of dense arrays"
COTANGENT_REMEDY = "let the rule give dense cotangents"


def dense_results(
    trace: ImplicitTrace,
    results: Sequence[Any],
    primitive: str,
    reason: str = REASON,
    remedy: str = REMEDY,
) -> list[Any]:
    """`results` of a function run under `trace`, dense; what had to become so is said."""
    dense = []
    for result in results:
        value = trace.lower(result)
        if is_value(value):
            argument = trace.argument_of(result)
            trace.run.happened(
                Materialization.of(
                    value,
                    primitive,
                    [reason],
                    source=trace.place(),
                    argument=argument,
                    remedy=remedy,
                )
            )
            with _jax.under(trace.parent):
                value = densify(value, trace.run, argument, primitive)
        dense.append(value)
    return dense


def refusing_class(value: Any, primitive: str) -> type | None:
    """The class of `value`, or of an array in its fields, that must not become dense here."""
    if not is_value(value):
        return None
    if loses_meaning(value, primitive):
        return type(value)
    for _, field in child_values(value):
        for leaf in jax.tree.leaves(field, is_leaf=is_value):
            refusing = refusing_class(leaf, primitive)
            if refusing is not None:
                return refusing
    return None
