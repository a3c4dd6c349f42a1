"""Any other primitive that holds a function: one that only calls it has it rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._call import Call
from typedqax._higher_order._rewrite import draft, rebuild, slots_of
from typedqax._jax import ClosedJaxpr, Jaxpr
from typedqax._value import is_value

CALLED_BY_NAME = frozenset({"composite"})
"""Primitives that only call a function, but that a compiler may know by their name and operands."""


def other(call: Call) -> list[Any] | None:
    """Apply a primitive without a rule of its own that holds a function.

    None where it holds none, or does more with it than to call it on its operands, so far as can be
    told from its params.
    """
    held = [name for name, param in call.params.items() if isinstance(param, (ClosedJaxpr, Jaxpr))]
    if len(held) != 1 or call.primitive.name in CALLED_BY_NAME:
        return None
    jaxpr = call.params[held[0]]
    closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else _jax.close_jaxpr(jaxpr)
    avals = [aval_of(v) if is_value(v) else jax.typeof(v) for v in call.values]
    rest = [param for name, param in call.params.items() if name != held[0]]
    if not _same_types(avals, closed.in_avals) or not all(map(_says_nothing_of_operands, rest)):
        return None
    given = _out_avals(call, avals, {})
    if given is None or not _same_types(given, closed.out_avals):
        return None
    rewritten = draft(call.trace, closed, slots_of(call.values), call.arguments)
    leaves = rewritten.operands(call.values)
    new: Any = rewritten.jaxpr
    if isinstance(jaxpr, Jaxpr):
        leaves = [*rewritten.jaxpr.consts, *leaves]
        new = _jax.hoist_consts(rewritten.jaxpr)
    changed = {held[0]: new}
    given = _out_avals(call, [jax.typeof(leaf) for leaf in leaves], changed)
    if given is None or not _same_types(given, rewritten.jaxpr.out_avals):
        return None
    for event in rewritten.events:
        call.trace.run.happened(event)
    call.result_arguments = rewritten.arguments
    with _jax.under(call.trace.parent):
        results = _jax.bind(call.primitive, leaves, {**call.params, **changed})
    return rebuild(rewritten.slots, results if call.primitive.multiple_results else [results])


def _same_types(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        (getattr(a, "shape", None), getattr(a, "dtype", None))
        == (getattr(b, "shape", None), getattr(b, "dtype", None))
        for a, b in zip(left, right, strict=True)
    )


def _says_nothing_of_operands(param: Any) -> bool:
    """Whether `param` is of a kind that cannot speak of single operands or results."""
    return param is None or isinstance(param, (bool, int, float, complex, str, bytes))


def _out_avals(call: Call, avals: Sequence[Any], changed: dict[str, Any]) -> list[Any] | None:
    try:
        return _jax.out_avals(call.primitive, avals, {**call.params, **changed})
    except (TypeError, ValueError, AssertionError, IndexError, KeyError):
        return None  # its own rule of shapes does not take such operands
