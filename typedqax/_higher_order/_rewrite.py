"""Rewritten jaxprs: a function over implicit arrays, as a jaxpr over their leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
from jax.tree_util import PyTreeDef

from typedqax import _jax
from typedqax._aval import aval_of, describe
from typedqax._installed import installed_version
from typedqax._jax import ClosedJaxpr, Jaxpr
from typedqax._materialization import Materialization, dense_bytes, policy_key
from typedqax._trace import ImplicitTrace, Run, densify
from typedqax._value import is_value


@dataclass(frozen=True, slots=True)
class Slot:
    """How one value is made of leaves; a dense value is its own leaf.

    Attributes:
        tree: the value's pytree.
        avals: the abstract values of its leaves.
    """

    tree: PyTreeDef
    avals: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any) -> Slot:
        """The slot that `value` fits."""
        leaves, tree = jax.tree.flatten(value)
        return cls(tree, tuple([jax.typeof(leaf) for leaf in leaves]))

    @classmethod
    def dense(cls, aval: Any) -> Slot:
        """The slot of a dense array."""
        return cls(_LEAF, (_jax.strong(aval),))

    @property
    def implicit(self) -> bool:
        """Whether the value is an implicit array."""
        return self.tree != _LEAF

    def same_type(self, other: Slot) -> bool:
        """Whether values of both slots can stand for each other (weak types aside)."""
        return self.tree == other.tree and all(
            (a.shape, a.dtype) == (b.shape, b.dtype)
            for a, b in zip(self.avals, other.avals, strict=True)
        )


_LEAF = jax.tree.structure(0)

Slots: TypeAlias = tuple[Slot, ...]


def slots_of(values: Iterable[Any]) -> Slots:
    """The slot of each value."""
    return tuple([Slot.of(value) for value in values])


def leaves_of(values: Sequence[Any]) -> list[Any]:
    """The leaves of all values, in order."""
    return jax.tree.leaves(list(values))


def rebuild(slots: Sequence[Slot], leaves: Sequence[Any]) -> list[Any]:
    """The values whose leaves these are."""
    values, start = [], 0
    for slot in slots:
        stop = start + len(slot.avals)
        values.append(jax.tree.unflatten(slot.tree, leaves[start:stop]))
        start = stop
    return values


def dense_slot(slot: Slot) -> Slot:
    """The slot of the dense array that a value of `slot` stands for."""
    if not slot.implicit:
        return slot
    value = jax.tree.unflatten(
        slot.tree, [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in slot.avals]
    )
    return Slot.dense(aval_of(value))


def join(left: Slots, right: Slots) -> Slots:
    """Per value: the slot where both agree, else the dense one."""
    return tuple(
        [a if a.same_type(b) else dense_slot(a) for a, b in zip(left, right, strict=True)]
    )


@dataclass(frozen=True, slots=True)
class Conform:
    """Where results have to be of given types.

    Attributes:
        slots: the types.
        primitive: what asks for them, for the report.
        reason: why a result may have to become dense, for the report.
    """

    slots: Slots
    primitive: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A jaxpr over leaves.

    Attributes:
        jaxpr: takes the leaves of all operands, gives the leaves of all results.
        slots: how the results are made of them.
        events: what became dense inside it.
    """

    jaxpr: ClosedJaxpr
    slots: Slots
    events: tuple[Materialization, ...]


def rewrite(
    run: Run, jaxpr: ClosedJaxpr, slots: Slots, conform: Conform | None = None
) -> Rewritten:
    """`jaxpr` for operands of these slots; what becomes dense in it is said.

    The result is remembered for as long as `jaxpr` lives, per operand types, handlers and policy.
    """
    rewritten: Rewritten = _rewrite(
        jaxpr, slots, conform, run.tables, installed_version(), policy_key(), run.quiet, _Rules(run)
    )
    inside_jax = is_jax_internal(jaxpr)
    for event in rewritten.events:
        run.materialized(
            dataclasses.replace(event, source=_jax.source_info()) if inside_jax else event
        )
    return rewritten


class _Rules:
    """The higher-order rules of a run, which are no part of a cache's key: there is one set."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rules)


def _rewrite_uncached(
    jaxpr: ClosedJaxpr,
    slots: Slots,
    conform: Conform | None,
    tables: Any,
    version: object,
    policy: object,
    quiet: bool,  # noqa: FBT001  # positional, for the cache
    rules: _Rules,
) -> Rewritten:
    del version, policy  # part of the cache's key
    run = Run(tables, rules.run.rules, quiet=quiet, deferred=True)
    out: list[Slots] = []

    def over_leaves(*leaves: Any) -> list[Any]:
        trace = ImplicitTrace(_jax.current_trace(), run)
        operands = [trace.lift(value) for value in rebuild(slots, leaves)]
        with _jax.under(trace):
            results = _jax.eval_jaxpr(
                jaxpr.jaxpr,
                jaxpr.consts,
                *operands,
                propagate_source_info=not is_jax_internal(jaxpr),
            )
        values = [trace.lower(result) for result in results]
        if conform is not None:
            values = [
                conform_value(run, value, slot, conform)
                for value, slot in zip(values, conform.slots, strict=True)
            ]
        out.append(slots_of(values))
        return leaves_of(values)

    avals = [aval for slot in slots for aval in slot.avals]
    traced = _jax.trace_to_jaxpr(over_leaves, avals, _jax.jaxpr_debug_info(jaxpr))
    closed = _jax.close_jaxpr(traced.jaxpr, traced.consts)
    return Rewritten(closed, out[-1], tuple(run.events))


_rewrite = _jax.weakref_lru_cache(_rewrite_uncached)


def conform_value(run: Run, value: Any, slot: Slot, conform: Conform) -> Any:
    """`value` as one of `slot`: unchanged, or dense."""
    if is_value(value) and not slot.implicit:
        operand = describe(value)
        run.materialized(
            Materialization(
                type(value),
                operand,
                dense_bytes(operand, aval_of(value).dtype.itemsize),
                conform.primitive,
                (operand,),
                (conform.reason,),
                _jax.source_info(),
            )
        )
        return densify(value, run)
    if not is_value(value):
        return _as_aval(value, slot.avals[0]) if not slot.implicit else value
    leaves = [
        _as_aval(leaf, aval)
        for leaf, aval in zip(jax.tree.leaves(value), slot.avals, strict=True)
    ]
    return jax.tree.unflatten(slot.tree, leaves)


def _as_aval(leaf: Any, aval: Any) -> Any:
    """`leaf` without weak type where `aval` has none, so that a loop's types settle."""
    own = jax.typeof(leaf)
    if getattr(own, "weak_type", False) and not getattr(aval, "weak_type", False):
        return jax.lax.convert_element_type(leaf, own.dtype)
    return leaf


def is_jax_internal(jaxpr: ClosedJaxpr | Jaxpr) -> bool:
    """Whether the function behind `jaxpr` is JAX's own: its lines are those of whoever called it
    first, so the caller's line now is the one to name."""
    return _jax.is_defined_in_jax(_jax.jaxpr_debug_info(jaxpr))


def repeat_per_leaf(items: Sequence[Any], slots: Slots) -> tuple[Any, ...]:
    """Each item once per leaf of its value."""
    return tuple(
        [item for item, slot in zip(items, slots, strict=True) for _ in slot.avals]
    )
