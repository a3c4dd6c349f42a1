"""custom_vjp: the user's rule stays, on the dense meaning of implicit operands and cotangents."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from typedqax import _jax
from typedqax._higher_order._dense import COTANGENT_REASON, COTANGENT_REMEDY, dense_results
from typedqax._higher_order._rewrite import Entrance, Slots, leaves_of, rebuild, slots_of
from typedqax._higher_order._ruleless import without_rule
from typedqax._higher_order.custom_jvp import run_on_leaves
from typedqax._jax import Primitive, SymbolicZero, WrappedFun, Zero
from typedqax._leafwise import is_empty
from typedqax._run import Run
from typedqax._trace import ImplicitTrace, densify
from typedqax._value import is_value


@dataclass(frozen=True, slots=True)
class _Residuals:
    """How the residuals of a rule come back to it.

    Attributes:
        slots: of the residuals that are not inputs.
        forwarded: per residual, the input it is; None where it is its own.
        inputs: those that are kept beside them, since they are forwarded, or to pull a cotangent
            back to their leaves.
        results: how many results the function has.
    """

    slots: Slots
    forwarded: tuple[int | None, ...]
    inputs: tuple[int, ...]
    results: int


def custom_vjp(
    trace: ImplicitTrace,
    primitive: Primitive,
    function: WrappedFun,
    fwd: WrappedFun,
    bwd: WrappedFun,
    operands: Sequence[Any],
    out_trees: Callable[[], tuple[Any, Any, list[int | None]]],
    symbolic_zeros: bool,  # as JAX passes it
) -> list[Any]:
    """Apply a function with its own vjp rule; its results are dense, so that the rule can stay.

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
    fwd_on_leaves, residuals = _jax.transform_wrapped_with_aux(
        _fwd_on_leaves, fwd, entry, out_trees
    )
    bwd_on_leaves = _jax.transform_wrapped(_bwd_on_leaves, bwd, entry, residuals)

    def leaf_out_trees() -> tuple[Any, Any, list[int | None]]:
        kept = residuals()
        forwarded: list[int | None] = [None] * sum(len(slot.avals) for slot in kept.slots)
        first = [0, *itertools.accumulate(len(slot.avals) for slot in slots)]
        for i in kept.inputs:
            forwarded += range(first[i], first[i + 1])
        return (
            jax.tree.structure([0] * kept.results),
            jax.tree.structure([0] * len(forwarded)),
            forwarded,
        )

    params = {
        "subfuns": (on_leaves, _jax.unnamed(fwd_on_leaves), bwd_on_leaves),
        "out_trees": leaf_out_trees,
        "symbolic_zeros": symbolic_zeros,
    }
    with _jax.under(trace.parent):
        # Nothing is differentiated by a leaf that only carries a shape: JAX, which refuses a jvp by
        # an operand of such a function, need not know of it.
        leaves = [
            jax.lax.stop_gradient(leaf) if is_value(value) and is_empty(leaf) else leaf
            for value in values
            for leaf in leaves_of([value])
        ]
    return list(_jax.bind_under(trace.parent, primitive, leaves, params))


def _fwd_on_leaves(
    fwd: Callable[..., Sequence[Any]],
    store: Any,
    entry: Entrance,
    out_trees: Callable[[], tuple[Any, Any, list[int | None]]],
    *leaves_and_flags: Any,
) -> list[Any]:
    """Residuals that are not inputs, then results; what is kept of the inputs JAX adds itself."""
    leaves, flags = leaves_and_flags[::2], leaves_and_flags[1::2]
    trace = entry.trace()
    pairs, start = [], 0
    for operand, slot in zip(entry.operands(trace, leaves), entry.slots, strict=True):
        stop = start + len(slot.avals)
        pairs += [operand, any(flags[start:stop])]
        start = stop
    with entry.inside(trace):
        outputs = list(fwd(*pairs))
    _, res_tree, forwarded = out_trees()
    own = res_tree.num_leaves - sum(index is not None for index in forwarded)
    residuals = [trace.lower(residual) for residual in outputs[:own]]
    results = dense_results(trace, outputs[own:], entry.primitive)
    inputs = [i for i, slot in enumerate(entry.slots) if slot.implicit or i in forwarded]
    store.store(_Residuals(slots_of(residuals), tuple(forwarded), tuple(inputs), len(results)))
    return [*leaves_of(residuals), *results]


def _bwd_on_leaves(
    bwd: Callable[..., Sequence[Any]],
    entry: Entrance,
    residuals: Callable[[], _Residuals],
    *leaves_and_cotangents: Any,
) -> list[Any]:
    """The cotangents of the inputs' leaves: the vjp of `materialize` on what the rule gives."""
    kept = residuals()
    split = len(leaves_and_cotangents) - kept.results
    leaves, cotangents = leaves_and_cotangents[:split], leaves_and_cotangents[split:]
    own_count = sum(len(slot.avals) for slot in kept.slots)
    own = iter(rebuild(kept.slots, leaves[:own_count]))
    known = rebuild([entry.slots[i] for i in kept.inputs], leaves[own_count:])
    inputs = dict(zip(kept.inputs, known, strict=True))
    trace = entry.trace()
    all_residuals = [
        trace.lift(next(own)) if i is None else trace.lift(inputs[i], entry.arguments[i])
        for i in kept.forwarded
    ]
    with entry.inside(trace):
        raw = bwd(*all_residuals, *cotangents)
    given = dense_results(trace, raw, entry.primitive, COTANGENT_REASON, COTANGENT_REMEDY)
    flat: list[Any] = []
    for i, cotangent in enumerate(given):
        if entry.slots[i].implicit:
            flat += _pull_back(entry.run, inputs[i], cotangent)
        else:
            flat.append(cotangent)
    return flat


def _pull_back(run: Run, value: Any, cotangent: Any) -> list[Any]:
    """The cotangents of the leaves of `value`, from that of the dense array."""
    leaves, tree = jax.tree.flatten(value)
    if type(cotangent) in (Zero, SymbolicZero):
        return [Zero(jax.typeof(leaf).to_ct_aval()) for leaf in leaves]
    quiet = run.quieted()

    def materialized(*leaves: Any) -> jax.Array:
        return densify(jax.tree.unflatten(tree, leaves), quiet)

    _, pullback = jax.vjp(materialized, *leaves)
    return [
        Zero(jax.typeof(leaf).to_ct_aval()) if _is_float0(ct) else ct
        for leaf, ct in zip(leaves, pullback(cotangent), strict=True)
    ]


def _is_float0(cotangent: Any) -> bool:
    return getattr(cotangent, "dtype", None) == jax.dtypes.float0
