"""One primitive on its way through handlers, rules and, last, materialization."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import (
    aval_of,
    describe,
)
from typedqax._contracts import check_results
from typedqax._declined import DECLINE
from typedqax._dispatch import ANY_PRIMITIVE, Candidate, Resolution, resolve
from typedqax._errors import ContractError
from typedqax._handler import Handler
from typedqax._jax import Params, Primitive
from typedqax._materialization import (
    Materialization,
)
from typedqax._misses import misses
from typedqax._reason import Reason
from typedqax._recording import Application, kept_record, put_inside
from typedqax._rule import Entry
from typedqax._run import Run
from typedqax._signature import Operand
from typedqax._trace import (
    ImplicitTrace,
    ImplicitTracer,
    has_implicit_field,
    lift_fields,
    lower,
    materializing,
    meaning,
)
from typedqax._value import EXTENT, is_value, with_children


class PrimitiveRule(Protocol):
    """How a primitive is applied to implicit operands when no handler takes it.

    It is given raw values, implicit or dense, and returns what it gives for them, or None where it
    cannot do better than materializing.
    """

    def __call__(self, call: Call, /) -> list[Any] | None: ...


@dataclass(slots=True, eq=False)
class Call:
    """A primitive on its way through handlers, rules and, last, materialization.

    Attributes:
        trace: the trace it is applied in.
        primitive: what is applied.
        values: its operands, implicit or dense, none of them a tracer of the run.
        operands: what they are dispatched as.
        params: its params.
        resolution: the handlers that take it, most specific first.
        arguments: the argument that each operand is, or was computed from, where that is known.
        reasons: why handlers that were tried declined.
        result_arguments: the same of the results, where a rule knows it.
    """

    trace: ImplicitTrace
    primitive: Primitive
    values: Sequence[Any]
    operands: tuple[Operand, ...]
    params: Params
    resolution: Resolution
    arguments: Sequence[Argument | None]
    reasons: list[str] = field(default_factory=list)
    result_arguments: Sequence[Argument | None] | None = None

    @classmethod
    def of(
        cls,
        trace: ImplicitTrace,
        primitive: Primitive,
        values: Sequence[Any],
        params: Params,
        arguments: Sequence[Argument | None],
    ) -> Call:
        """The call, with its handlers looked up."""
        with _jax.under(trace.parent):
            operands = tuple([describe(value) for value in values])
            resolution = resolve(trace.run.tables, primitive.name, operands, values)
        return cls(trace, primitive, values, operands, params, resolution, arguments)

    def argument_of(self, result: Any, place: int) -> Argument | None:
        """The argument that a result is, or was computed from, where there is one such."""
        if self.result_arguments is not None:
            return self.result_arguments[place]
        for value, argument in zip(self.values, self.arguments, strict=True):
            if value is result:
                return argument
        known = [argument for argument in self.arguments if argument is not None]
        return known[0].computed_by(self.primitive.name) if len(known) == 1 else None

    def results(self, position: int = 0) -> list[Any]:
        """The results, from the first handler at or after `position` that does not decline."""
        chain = self.resolution.chain
        rules = self.trace.run.rules
        rule: PrimitiveRule | None = rules.primitives.get(self.primitive.name, rules.other)
        for index in range(position, len(chain)):
            candidate = chain[index]
            ambiguous = self.resolution.ambiguous_after(index)
            if ambiguous is not None:
                raise ambiguous
            if rule is not None and candidate.entry.target.name == ANY_PRIMITIVE:
                results, rule = self._by(rule), None
                if results is not None:
                    return results
            results = self._try(index, candidate)
            if results is not None:
                if kept_record() is not None:
                    self._record(candidate)
                return results
        if rule is not None:
            results = self._by(rule)
            if results is not None:
                return results
        return self.materialize_operands()

    def _by(self, rule: PrimitiveRule) -> list[Any] | None:
        """What the rule gives; what happens meanwhile is noted as inside of this call."""
        events = self.trace.run.noted()
        before = 0 if events is None else len(events)
        results = rule(self)
        if results is not None and _jax.splits_in_types():
            with _jax.under(self.trace.parent):
                results = split_as_due(results, self.primitive, self.values, self.params)
        if events is not None and len(events) > before:
            outer = _jax.name_scopes(self.trace.place())
            name = _jax.inner_function(self.primitive, self.params)
            events[before:] = [put_inside(event, outer, name) for event in events[before:]]
        return results

    def _try(self, index: int, candidate: Candidate) -> list[Any] | None:
        """What the handler gives; None where it declines."""
        handler = candidate.entry.handler
        params = handler.accepted(self.params)
        if isinstance(params, str):
            self.reasons.append(_reason(handler, f" declined: {params}"))
            return None
        values = self.values[::-1] if candidate.swapped else self.values
        result = self._invoke(index, candidate, values, params)
        if result is DECLINE or result is NotImplemented:
            if handler.declines == "never":
                raise ContractError(
                    f"handler {handler.name} for `{self.primitive.name}` ({handler.place})",
                    f"declined, but its return annotation does not say that it may: "
                    f"{handler.result.text}.",
                    advice="Annotate the result as `... | typedqax.Declined`.",
                )
            self.reasons.append(_reason(handler, " declined"))
            return None
        avals = [_aval(value) for value in self.values]
        with _jax.under(self.trace.parent):
            results = check_results(
                self.primitive, candidate, self.operands, self.params, result, avals
            )
            if _jax.splits_in_types():
                results = split_as_due(results, self.primitive, self.values, self.params)
            if not _jax.checks_varying():
                return results
            varying = list(map(_jax.varying_as, avals, self.values))
            return _jax.varying_as_due(results, self.primitive, varying, self.params)

    def _invoke(
        self, index: int, candidate: Candidate, values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Run the handler as ordinary JAX code, its operands' own implicit fields as tracers."""
        self._refuse_recursion(candidate)
        target, function = candidate.entry.target, candidate.entry.handler.function
        first = () if target.first is None else (target.first,)
        if target.name == ANY_PRIMITIVE and callable(target.first):
            first = (target.first(self.primitive),)  # what stands for this primitive
        nested = any(is_value(value) and has_implicit_field(value) for value in values)
        trace = self.trace
        if nested:
            arguments = self.arguments[::-1] if candidate.swapped else self.arguments
            values = [
                lift_fields(v, trace, argument) if is_value(v) else v
                for v, argument in zip(values, arguments, strict=True)
            ]
        _frames.stack.append(HandlerFrame(self, index, tuple(values), candidate.swapped))
        inside = _jax.swap_inside(nested or trace.is_inner)
        try:
            with _jax.under(trace if nested else trace.parent):
                result = function(*first, *values, **params)
        except RecursionError as error:
            # A recursion of the user's own, inside one handler, is nothing to explain away.
            if any(frame.entry is candidate.entry for frame in _frames.stack[:-1]):
                raise self._endless(candidate) from error
            raise
        finally:
            _jax.swap_inside(inside)
            _frames.stack.pop()
        return lower(result, trace.run) if nested else _lower_result(result, trace.run)

    def _refuse_recursion(self, candidate: Candidate) -> None:
        """Refuse a handler that applies its own primitive to its own operands: it runs for ever."""
        frame = running_handler()
        if frame is None or frame.entry is not candidate.entry or frame.call.params != self.params:
            return
        own, tree = jax.tree.flatten(list(frame.call.values))
        again, other_tree = jax.tree.flatten(list(self.values))
        if tree == other_tree and all(a is b for a, b in zip(own, again, strict=True)):
            raise self._endless(candidate)

    def _endless(self, candidate: Candidate) -> ContractError:
        handler, name = candidate.entry.handler, self.primitive.name
        return ContractError(
            f"handler {handler.name} for `{name}` ({handler.place})",
            f"applies `{name}` to its own operands, which runs it again, and so for ever.",
            advice="Work on the operands' fields; for the next handler, or the dense arrays, call "
            "typedqax.default_handler with the very same operands (inside a function that jit, "
            "checkpoint or grad transforms, close over them).",
        )

    def materialize_operands(self) -> list[Any]:
        """The results for dense operands; what is made dense is said.

        An operand whose `materialize` gives an implicit array is that array here, with handlers
        of its own: a LoRA matrix around a masked one keeps the mask.
        """
        run, name = self.trace.run, self.primitive.name
        pairs = list(zip(self.values, self.arguments, strict=True))
        told = [pair for pair in pairs if is_value(pair[0]) and run.asks_of(pair[0], name)]
        if told:
            source, (reasons, remedy) = self.trace.place(), self._reasons()
            for value, argument in told:
                run.happened(
                    Materialization.of(
                        value,
                        name,
                        reasons,
                        source=source,
                        operands=self.operands,
                        argument=argument,
                        remedy=remedy,
                    )
                )
        with _jax.under(self.trace.parent):
            dense = [
                meaning(value, run, argument, name) if is_value(value) else value
                for value, argument in pairs
            ]
        if any(is_value(value) for value in dense):
            meant = Call.of(self.trace, self.primitive, dense, self.params, self.arguments)
            return meant.results()
        with _jax.under(self.trace.parent):
            # JAX's functions saw to it for the operands that they knew; an implicit one did not
            # say over which axes of a shard_map it varies.
            dense = list(_jax.varying_alike(dense))
        results = _jax.bind_under(self.trace.parent, self.primitive, dense, self.params)
        return list(results) if self.primitive.multiple_results else [results]

    def _record(self, candidate: Candidate) -> None:
        handler = candidate.entry.handler
        self.trace.run.happened(
            Application(
                self.primitive.name,
                self.operands,
                handler.name,
                handler.place,
                tuple(self.reasons),
                self.trace.place(),
            )
        )

    def _reasons(self) -> tuple[tuple[str, ...], str]:
        """Why no handler takes this call, and what to do unless it is to write one."""
        near = misses(self.trace.run.tables, self.primitive.name, self.operands)
        table = near[0].table if near else None
        reasons = [_reason(miss.entry.handler, ": ", miss.reason) for miss in near]
        return (
            (*self.reasons, *reasons[:3]),
            f"give the table {table.name!r} as handlers=, or tq.install it" if table else "",
        )


def _reason(handler: Handler, *parts: str) -> Reason:
    """What is said of a handler, with its name and place."""
    return Reason(handler.name, " (", handler.place, ")", *parts)


def split_as_due(
    results: Sequence[Any], primitive: Primitive, values: Sequence[Any], params: Params
) -> list[Any]:
    """These results of `primitive`, split over a mesh with explicit axes as its own would be.

    Where an implicit result has leaves, those decide; one without is split by its extent.
    """
    due = _jax.out_avals(primitive, list(map(_aval, values)), params)
    if due is None:
        return list(results)
    return [_resplit(result, aval) for result, aval in zip(results, due, strict=True)]


def _resplit(result: Any, due: Any) -> Any:
    split = _jax.split_of(due)
    if not is_value(result):
        return _jax.resplit(result, split)
    extent = result.__dict__.get(EXTENT)
    if extent is None:
        return result
    return with_children(result, {EXTENT: _jax.resplit(extent, (*split, None))})


def _aval(value: Any) -> Any:
    return aval_of(value) if is_value(value) else jax.typeof(value)


def _lower_result(result: Any, run: Run) -> Any:
    """As `lower`, where only the results themselves can be tracers of the run."""
    if type(result) is ImplicitTracer and result._trace.run.root is run.root:
        return result._stands_for
    if isinstance(result, (list, tuple)):
        items = [_lower_result(item, run) for item in result]
        return items if isinstance(result, list) else tuple(items)
    return result


def apply_to_values(
    trace: ImplicitTrace,
    primitive: Primitive,
    values: Sequence[Any],
    params: Params,
    arguments: Sequence[Argument | None],
) -> list[Any]:
    """What a primitive that was bound in `trace` gives for these values, as tracers of it."""
    call = Call.of(trace.here(), primitive, values, params, arguments)
    return [
        trace.lift(result, call.argument_of(result, place))
        for place, result in enumerate(call.results())
    ]


# --- handlers that are running -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class HandlerFrame:
    """A handler that is running in this thread, and the call it handles."""

    call: Call
    index: int
    operands: tuple[Any, ...]
    swapped: bool

    @property
    def entry(self) -> Entry:
        """The rule that runs, under its primitive."""
        return self.call.resolution.chain[self.index].entry

    def handles(self, primitive: Primitive, operands: Sequence[Any]) -> bool:
        """Whether this is the same primitive on the handler's own operands."""
        return (
            primitive is self.call.primitive
            and len(operands) == len(self.operands)
            and all(a is b for a, b in zip(operands, self.operands, strict=True))
        )

    def proceed(self, params: Params) -> list[Any]:
        """What the next most specific handler gives, and last materialization."""
        call = self.call
        following = Call(
            call.trace,
            call.primitive,
            call.values,
            call.operands,
            params,
            call.resolution,
            call.arguments,
            list(call.reasons),
        )
        return following.results(self.index + 1)


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[HandlerFrame] = []


_frames = _Frames()


def running_handler() -> HandlerFrame | None:
    """The handler that is running now in this thread."""
    return _frames.stack[-1] if _frames.stack else None


def bodies_running() -> tuple[int, int]:
    """How many handlers, and `materialize` methods, are running now in this thread."""
    return len(_frames.stack), materializing()


def argument_in_handlers(value: Any) -> Argument | None:
    """The argument that an operand of a running handler is; None of anything else."""
    for frame in reversed(_frames.stack):
        for own, argument in zip(frame.call.values, frame.call.arguments, strict=True):
            if own is value:
                return argument
    return None
