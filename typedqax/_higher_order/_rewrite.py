"""Rewritten jaxprs: a function over implicit arrays, as a jaxpr over their leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
from jax.tree_util import PyTreeDef

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of, is_array_like
from typedqax._contracts import checks_enabled
from typedqax._fields import field_layouts
from typedqax._installed import installed_version
from typedqax._jax import ClosedJaxpr, Jaxpr
from typedqax._materialization import InnerRefusal, Materialization, is_forbidden, policy_key
from typedqax._reason import Reason
from typedqax._recording import Application, kept_record
from typedqax._run import Run
from typedqax._signature import Dense
from typedqax._trace import Callers, ImplicitTrace, densify
from typedqax._value import auxiliary_data, child_values, is_value, with_children


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
    def of_abstract(cls, value: Any) -> Slot:
        """The slot that a value with abstract leaves fits."""
        leaves, tree = jax.tree.flatten(value)
        return cls(tree, tuple(leaves))

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

    def stand_in(self) -> Any:
        """A value of this slot with abstract leaves."""
        return jax.tree.unflatten(self.tree, self.avals)


_LEAF = jax.tree.structure(0)

Slots: TypeAlias = tuple[Slot, ...]


def slots_of(values: Iterable[Any]) -> Slots:
    """The slot of each value."""
    return tuple([Slot.of(value) for value in values])


def leaves_of(values: Sequence[Any]) -> list[Any]:
    """The leaves of all values, in order, as primitives take them (numpy's are no arrays yet)."""
    return [_jax.canonicalize(leaf) for leaf in jax.tree.leaves(list(values))]


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
    return Slot.dense(aval_of(slot.stand_in())) if slot.implicit else slot


@dataclass(frozen=True, slots=True, eq=False)
class Entrance:
    """How an inner function is entered that JAX calls itself, later and maybe more than once.

    Attributes:
        run: the run it is a part of.
        primitive: the name of what calls it.
        slots: of its operands.
        arguments: which arguments these are, where that is known.
        callers: where it was called.
    """

    run: Run
    primitive: str
    slots: Slots
    arguments: tuple[Argument | None, ...]
    callers: Callers

    @classmethod
    def of(
        cls,
        trace: ImplicitTrace,
        primitive: str,
        slots: Slots,
        arguments: Iterable[Argument | None],
    ) -> Entrance:
        """The entrance of a function that is being called in `trace`."""
        return cls(trace.run, primitive, slots, tuple(arguments), trace.as_caller())

    def trace(self) -> ImplicitTrace:
        """A trace for the function, inside of the current one."""
        return ImplicitTrace(_jax.current_trace(), self.run, self.callers, resumed=True)

    @contextmanager
    def inside(self, trace: ImplicitTrace) -> Iterator[None]:
        """Where the function runs: in that trace, as a part of what was transformed."""
        with _jax.under(trace), self.run.rules.around_resumed(self.run.tables):
            yield

    def operands(self, trace: ImplicitTrace, leaves: Sequence[Any]) -> list[Any]:
        """Its operands in that trace, from their leaves."""
        return list(map(trace.lift, rebuild(self.slots, leaves), self.arguments))


# --- joining -------------------------------------------------------------------------------------


def join(left: Slots, right: Slots) -> Slots:
    """Per value: the slot where both agree, else one with as little made dense as it takes."""
    return tuple([_join(a, b) for a, b in zip(left, right, strict=True)])


def _join(left: Slot, right: Slot) -> Slot:
    if left.same_type(right):
        avals = [
            a if _is_weak(a) == _is_weak(b) else _jax.strong(a)
            for a, b in zip(left.avals, right.avals, strict=True)
        ]
        return Slot(left.tree, tuple(avals))
    if not (left.implicit and right.implicit):
        return dense_slot(left)
    leaves, tree = jax.tree.flatten(_join_values(left.stand_in(), right.stand_in()))
    return Slot(tree, tuple([_jax.strong(leaf) for leaf in leaves]))


def _is_weak(aval: Any) -> bool:
    return bool(getattr(aval, "weak_type", False))


def _join_values(left: Any, right: Any) -> Any:
    """Abstract values: of the same class with joined fields where that can be, else dense."""
    if not is_value(left):
        return left
    whole = aval_of(left)
    if type(left) is not type(right) or auxiliary_data(left) != auxiliary_data(right):
        return whole
    layouts, other = field_layouts(type(left)), dict(child_values(right))
    joined = {}
    for name, field in child_values(left):
        patterns = layouts[name].patterns if name in layouts else None
        takes_dense = patterns is None or any(Dense in pattern.classes for pattern in patterns)
        one, two = Slot.of_abstract(field), Slot.of_abstract(other[name])
        if one.same_type(two):
            joined[name] = field
        elif takes_dense and _both_arrays(field, other[name]):
            joined[name] = _join_values(field, other[name])
        else:
            return whole
    return with_children(left, joined)


def _both_arrays(left: Any, right: Any) -> bool:
    """Whether both are arrays, dense or implicit, of the same shape and dtype."""
    if not (is_array_like(left) and is_array_like(right)):
        return False
    return (left.shape, left.dtype) == (right.shape, right.dtype)


# --- rewriting -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conform:
    """Where results have to be of given types.

    Attributes:
        slots: the types.
        primitive: what asks for them, for the report.
        reasons: of each result, why it may have to become dense, for the report.
        remedies: of each result, how to avoid that, for the report.
    """

    slots: Slots
    primitive: str
    reasons: tuple[tuple[str, ...], ...]
    remedies: tuple[str, ...]

    @classmethod
    def alike(cls, slots: Slots, primitive: str, reason: str, remedy: str) -> Conform:
        """The same reason and remedy for every result."""
        return cls(slots, primitive, ((reason,),) * len(slots), (remedy,) * len(slots))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A jaxpr over leaves.

    Attributes:
        jaxpr: takes what was captured and the leaves of all operands, gives those of all results.
        slots: how the results are made of them.
        arguments: the operand that each result is, or was computed from, where that is known.
        events: what happened inside it; the arguments are its operands.
        captured: what a handler in it closed over, if any of that is a tracer: operands in front.
    """

    jaxpr: ClosedJaxpr
    slots: Slots
    arguments: tuple[Argument | None, ...]
    events: tuple[Application | Materialization, ...]
    captured: tuple[Any, ...] = ()

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """What the jaxpr is to be given for these values."""
        return [*self.captured, *leaves_of(values)]

    def within(
        self, trace: ImplicitTrace, arguments: Sequence[Argument | None], *, inside_jax: bool
    ) -> Rewritten:
        """The same called in `trace`, now, with operands of these arguments."""
        events = [
            event.within(_called_in(trace, event.source, inside_jax=inside_jax), arguments)
            for event in self.events
        ]
        return replace(
            self,
            arguments=tuple([each and each.within(arguments) for each in self.arguments]),
            events=tuple(events),
        )


def _called_in(
    trace: ImplicitTrace, source: _jax.SourceInfo, *, inside_jax: bool
) -> _jax.SourceInfo:
    """A place in an inner function that `trace` calls now.

    One that names no line of the user's gets that of the call. So does all that is inside a
    function of JAX's own: JAX remembers it, with the lines of whoever called it first.
    """
    told = not inside_jax and _jax.user_frame(source) is not None
    return source if told else _jax.called_from(trace.place(), source)


def rewrite(
    trace: ImplicitTrace,
    jaxpr: ClosedJaxpr,
    slots: Slots,
    arguments: Sequence[Argument | None],
    conform: Conform | None = None,
) -> Rewritten:
    """`jaxpr` for operands of these slots and arguments; what happens in it is said.

    The result is remembered for as long as `jaxpr` and the handlers live, per operand types and
    policy.
    """
    rewritten = draft(trace, jaxpr, slots, arguments, conform)
    for event in rewritten.events:
        trace.run.happened(event)
    return rewritten


def draft(
    trace: ImplicitTrace,
    jaxpr: ClosedJaxpr,
    slots: Slots,
    arguments: Sequence[Argument | None],
    conform: Conform | None = None,
) -> Rewritten:
    """As `rewrite`, where it is not settled that this is what runs, and nothing is said."""
    inside_jax = is_jax_internal(jaxpr)
    try:
        rewritten = _remembered(trace.run, jaxpr, slots, None)
        if conform is not None and rewritten.slots != conform.slots:
            rewritten = _remembered(trace.run, jaxpr, slots, conform)
    except InnerRefusal as refusal:
        source = _called_in(trace, refusal.event.source, inside_jax=inside_jax)
        event = refusal.event.within(source, arguments)
    else:
        return rewritten.within(trace, arguments, inside_jax=inside_jax)
    raise trace.run.refusal(event)


def through(primitive: str, arguments: Sequence[Argument | None]) -> list[Argument | None]:
    """What `primitive` makes of each argument before an inner function gets it."""
    return [each and each.computed_by(primitive) for each in arguments]


def dense_in(rewritten: Rewritten) -> list[str]:
    """What became dense in a draft, a sentence each: why a result has another type, maybe."""
    return [
        Reason("in it, ", event.told)
        for event in rewritten.events
        if isinstance(event, Materialization)
    ]


def forbidden_in(events: Iterable[Application | Materialization]) -> list[Materialization]:
    """Those that are to be refused."""
    if kept_record() is not None:
        return []
    return [each for each in events if isinstance(each, Materialization) and is_forbidden(each)]


def _remembered(run: Run, jaxpr: ClosedJaxpr, slots: Slots, conform: Conform | None) -> Rewritten:
    modes = (installed_version(), policy_key(), checks_enabled(), _jax.trace_context())
    key = (slots, conform, run.quiet, run.rules, modes)
    known = run.tables.rewritten.setdefault(jaxpr, {})
    rewritten: Rewritten | None = known.get(key)
    if rewritten is None:
        rewritten = _rewrite(jaxpr, slots, conform, run)
        if not rewritten.captured:  # tracers, which nothing may keep
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            known[key] = rewritten
    return rewritten


_MOST_REMEMBERED = 256
"""As many rewritten functions are kept of one, for operands of various types, say."""


def _rewrite(jaxpr: ClosedJaxpr, slots: Slots, conform: Conform | None, calling: Run) -> Rewritten:
    run = Run(calling.tables, calling.rules, quiet=calling.quiet, deferred=True, calling=calling)
    out: list[Slots] = []
    sources: list[list[Argument | None]] = []

    def over_leaves(*leaves: Any) -> list[Any]:
        trace = ImplicitTrace(_jax.current_trace(), run)
        operands = [
            trace.lift(value, Argument(place)) for place, value in enumerate(rebuild(slots, leaves))
        ]
        with _jax.under(trace):
            results = _jax.eval_jaxpr(
                jaxpr.jaxpr,
                map(trace.drawn, jaxpr.consts),
                *operands,
                propagate_source_info=not is_jax_internal(jaxpr),
            )
        values = [trace.lower(result) for result in results]
        arguments = [trace.argument_of(result) for result in results]
        if conform is not None:
            values = conform_values(trace, values, arguments, conform)
        out.append(slots_of(values))
        sources.append(arguments)
        return leaves_of(values)

    avals = [aval for slot in slots for aval in slot.avals]
    try:
        traced = _jax.trace_to_jaxpr(over_leaves, avals, _jax.jaxpr_debug_info(jaxpr))
    except Exception:
        forbidden = forbidden_in(run.events)
        if forbidden:  # where that is refused, nothing comes after it
            raise InnerRefusal(forbidden[0]) from None
        raise
    closed = _jax.close_jaxpr(traced.jaxpr, traced.consts)
    rewritten = Rewritten(closed, out[-1], tuple(sources[-1]), tuple(run.events))
    run.settle()
    if _jax.is_traced(traced.consts):  # constants of a jaxpr are not differentiated, nor mapped
        opened = _jax.close_jaxpr(_jax.hoist_consts(closed))
        return replace(rewritten, jaxpr=opened, captured=tuple(traced.consts))
    return rewritten


def _reordered_uncached(jaxpr: ClosedJaxpr, order: tuple[int, ...]) -> ClosedJaxpr:
    invars = [jaxpr.jaxpr.invars[place] for place in order]
    return _jax.close_jaxpr(_jax.with_invars(jaxpr.jaxpr, invars), jaxpr.consts)


_reordered = _jax.weakref_lru_cache(_reordered_uncached)


def reordered(jaxpr: ClosedJaxpr, order: tuple[int, ...]) -> ClosedJaxpr:
    """`jaxpr` with its operands in another order, the same object each time."""
    same: ClosedJaxpr = _reordered(jaxpr, order)
    return same


# --- conforming ----------------------------------------------------------------------------------


def conform_values(
    trace: ImplicitTrace,
    values: Sequence[Any],
    arguments: Sequence[Argument | None],
    conform: Conform,
) -> list[Any]:
    """Each value as one of its slot: unchanged, or dense, or with some of its fields dense."""

    def conformed(
        value: Any, target: Any, argument: Argument | None, reasons: tuple[str, ...], remedy: str
    ) -> Any:
        if not is_value(value):
            return value if is_value(target) else _as_aval(value, target)
        if not is_value(target):
            trace.run.happened(
                Materialization.of(
                    value,
                    conform.primitive,
                    reasons,
                    source=trace.place(),
                    argument=argument,
                    remedy=remedy,
                )
            )
            return _as_aval(densify(value, trace.run, argument, conform.primitive), target)
        targets = dict(child_values(target))
        fields = {}
        for name, field in child_values(value):
            own = argument and argument.field(name)
            fields[name] = jax.tree.map(
                lambda each, to, own=own: conformed(each, to, own, reasons, remedy),
                field,
                targets[name],
                is_leaf=is_value,
            )
        return with_children(value, fields)

    return [
        conformed(value, slot.stand_in(), argument, reasons, remedy)
        for value, slot, argument, reasons, remedy in zip(
            values, conform.slots, arguments, conform.reasons, conform.remedies, strict=True
        )
    ]


def _as_aval(leaf: Any, aval: Any) -> Any:
    """`leaf` without weak type where `aval` has none, so that a loop's types settle."""
    own = jax.typeof(leaf)
    if _is_weak(own) and not _is_weak(aval):
        return jax.lax.convert_element_type(leaf, own.dtype)
    return leaf


def is_jax_internal(jaxpr: ClosedJaxpr | Jaxpr) -> bool:
    """Whether the function behind `jaxpr` is JAX's own."""
    return _jax.is_defined_in_jax(_jax.jaxpr_debug_info(jaxpr))


def repeat_per_leaf(items: Sequence[Any], slots: Slots) -> tuple[Any, ...]:
    """Each item once per leaf of its value."""
    return tuple([item for item, slot in zip(items, slots, strict=True) for _ in slot.avals])
