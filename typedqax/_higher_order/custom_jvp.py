"""custom_jvp: the user's rule stays, on the dense meaning of implicit operands and tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._higher_order._dense import dense_results
from typedqax._higher_order._rewrite import Entrance, leaves_of, rebuild, slots_of
from typedqax._higher_order._ruleless import without_rule
from typedqax._jax import Primitive, SymbolicZero, WrappedFun
from typedqax._run import Run
from typedqax._trace import ImplicitTrace, densify
from typedqax._value import is_value


def custom_jvp(
    trace: ImplicitTrace,
    primitive: Primitive,
    function: WrappedFun,
    jvp: WrappedFun,
    operands: Sequence[Any],
    symbolic_zeros: bool,  # as JAX passes it
) -> list[Any]:
    """Apply a function with its own jvp rule; its results are dense, so that the rule can stay.

    A class that must not become dense runs through its handlers instead, without the rule, and a
    derivative says so.
    """
    ruleless = without_rule(trace, primitive, function, operands)
    if ruleless is not None:
        return ruleless
    values = [trace.lower(operand) for operand in operands]
    slots = slots_of(values)
    entry = Entrance.of(trace, primitive.name, slots, map(trace.argument_of, operands))
    on_leaves = _jax.transform_wrapped(run_on_leaves, function, entry)
    jvp_on_leaves = _jax.transform_wrapped(_jvp_on_leaves, jvp, entry)
    params = {"subfuns": (on_leaves, jvp_on_leaves), "symbolic_zeros": symbolic_zeros}
    return list(_jax.bind_under(trace.parent, primitive, leaves_of(values), params))


def run_on_leaves(
    function: Callable[..., Sequence[Any]], entry: Entrance, *leaves: Any
) -> list[Any]:
    """The function itself, over leaves; its results dense."""
    trace = entry.trace()
    with entry.inside(trace):
        results = function(*entry.operands(trace, leaves))
    return dense_results(trace, results, entry.primitive)


def _jvp_on_leaves(jvp: Callable[..., Sequence[Any]], entry: Entrance, *leaves: Any) -> list[Any]:
    count = len(leaves) // 2
    primals = rebuild(entry.slots, leaves[:count])
    tangents, start = [], count
    for primal, slot in zip(primals, entry.slots, strict=True):
        stop = start + len(slot.avals)
        tangents.append(_tangent(entry.run, primal, leaves[start:stop]))
        start = stop
    trace = entry.trace()
    with entry.inside(trace):
        results = jvp(*entry.operands(trace, leaves[:count]), *tangents)
    return dense_results(trace, results, entry.primitive)


def _tangent(run: Run, primal: Any, tangents: Sequence[Any]) -> Any:
    """The tangent of the array that `primal` stands for: the jvp of `materialize`."""
    if not is_value(primal):
        return tangents[0]
    if all(type(tangent) is SymbolicZero for tangent in tangents):
        return SymbolicZero(aval_of(primal).to_tangent_aval())
    leaves, tree = jax.tree.flatten(primal)

    def materialized(*leaves: Any) -> jax.Array:
        return densify(jax.tree.unflatten(tree, leaves), run.quieted())

    instantiated = [_instantiate(tangent) for tangent in tangents]
    return jax.jvp(materialized, tuple(leaves), tuple(instantiated))[1]


def _instantiate(tangent: Any) -> Any:
    if type(tangent) is SymbolicZero:
        return _jax.zeros_of(tangent.aval)
    return tangent
