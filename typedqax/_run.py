"""One application of the transform: what decides in it, and what was said in it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from typedqax import _jax
from typedqax._dispatch import Tables
from typedqax._errors import MaterializationError
from typedqax._jax import Params, Primitive
from typedqax._materialization import (
    InnerRefusal,
    Materialization,
    dense_bytes,
    is_forbidden,
    judged,
    loses_meaning,
    own_policy,
    policy_for,
    refusal,
    report,
)
from typedqax._recording import Application, kept_record
from typedqax._value import ImplicitValue


class Held(enum.IntEnum):
    """What an inner function holds that may make it a part of what runs; the greatest counts."""

    NOTHING = 0
    RULE = 1
    """A derivative rule of a user's, which JAX may run when whoever called the function is over."""
    ARRAY = 2
    """An implicit array that the function closes over or makes, or that it may materialize. It is
    an equation; or a constant, which a rule brings that JAX differentiates or transposes."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What the trace does with what is applied in it.

    Attributes:
        primitive: any primitive that is applied to implicit operands.
        primitives: what is done where no handler takes it, by primitive name: for those that hold
            functions, and for those that do not look at the numbers of an array.
        other: for every other primitive.
        call: `Trace.process_call`.
        custom_jvp: `Trace.process_custom_jvp_call`.
        custom_vjp: `Trace.process_custom_vjp_call`.
        shard_map: `Trace.process_shard_map`.
        holding: the primitives whose functions may be a part of what runs though their operands
            are dense.
        held: what a function that such a primitive calls holds.
        around_resumed: what is around a function of the user's that JAX calls itself, maybe when
            that which passed it to JAX is over; it is told the handlers that decide.
    """

    primitive: Callable[..., list[Any]]
    primitives: Mapping[str, Callable[[Any], list[Any] | None]]
    other: Callable[[Any], list[Any] | None]
    call: Callable[..., list[Any]]
    custom_jvp: Callable[..., list[Any]]
    custom_vjp: Callable[..., list[Any]]
    shard_map: Callable[..., list[Any]]
    holding: Container[str]
    held: Callable[[Primitive, Params], Held]
    around_resumed: Callable[[Tables], AbstractContextManager[object]]


@dataclass(slots=True, eq=False)
class Run:
    """One application of the transform: what decides in it, and what was said in it.

    Its root tells its tracers from those of other runs; custom rules and inner functions enter
    further traces of the same run.

    Attributes:
        tables: the handlers that decide.
        rules: what is done with primitives that hold functions.
        quiet: nothing is said of materializations (an outer one was), though a class that must not
            become dense still refuses.
        deferred: this is a draft of what may run: what happens is noted, for an outer run to say,
            or to refuse, if that is what runs.
        events: what happened so far where that is deferred, for a cache of rewritten functions to
            say again.
        root: the run itself, or the one whose part with other tables this is.
        calling: the run that this is a draft for, while it is one.
    """

    tables: Tables
    rules: Rules
    quiet: bool = False
    deferred: bool = False
    events: list[Application | Materialization] = field(default_factory=list)
    root: Run = field(init=False)
    calling: Run | None = None
    _said: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.root = self

    def asks_of(self, value: ImplicitValue, primitive: str) -> bool:
        """Whether anybody is to be told that `value` becomes dense for `primitive`.

        Where not, what would be told need not be found out.
        """
        if kept_record() is not None:
            return not self.quiet
        if self.quiet:
            return own_policy(type(value)) == "error"
        return policy_for(type(value), primitive, dense_bytes(value)) != "allow"

    def happened(self, event: Application | Materialization) -> None:
        """Take note of `event`, and say so where nothing like it was said in this run.

        Raises:
            MaterializationError: the policy forbids it.
        """
        record = kept_record()
        if self.quiet:
            if record is None and isinstance(event, Materialization):
                self._refuse_meaningless(event)
            return
        if self.root.deferred:
            self.events.append(event)
        elif record is not None:
            told = judged(event) if isinstance(event, Materialization) else event
            record.events.append(told)
        elif isinstance(event, Materialization):
            self._say(event)

    def noted(self) -> list[Application | Materialization] | None:
        """Where what happens is noted; None where it is not."""
        if self.quiet:
            return None
        if self.root.deferred:
            return self.events
        record = kept_record()
        return None if record is None else record.events

    def _refuse_meaningless(self, event: Materialization) -> None:
        if own_policy(event.cls) == "error" and is_forbidden(event):
            if self.root.deferred:
                self.events.append(event)
            else:
                report(event)

    def _say(self, event: Materialization) -> None:
        key = _key_of(event)
        if key not in self._said:
            report(event)
            self._said.add(key)  # not before: what was refused is refused again

    def refusal(self, event: Materialization) -> MaterializationError:
        """The error that `event` is forbidden; where that is deferred, for an outer run to say."""
        return InnerRefusal(event) if self.root.deferred else refusal(event)

    def will_refuse(self, value: ImplicitValue, primitive: str) -> bool:
        """Whether it is noted, to be refused, that `value` loses its meaning for `primitive`."""
        return self.root.deferred and kept_record() is None and loses_meaning(value, primitive)

    def settle(self) -> None:
        """From here on nobody waits for deferred events.

        A derivative rule of a function inside may run later; what it does is said by itself.
        """
        self.deferred, self.calling = False, None
        for event in self.events:
            if isinstance(event, Materialization):
                self._said.add(_key_of(event))

    def quieted(self) -> Run:
        """A run with the same handlers that says nothing."""
        return Run(self.tables, self.rules, quiet=True)

    def with_tables(self, tables: Tables) -> Run:
        """The part of this run in which other handlers decide."""
        part = Run(tables, self.rules, self.quiet, self.deferred, self.events, _said=self._said)
        part.root = self.root
        return part

    def draws_on(self, other: Run) -> bool:
        """Whether arrays of `other` are operands of what this run is a draft for."""
        calling = self.root.calling
        return calling is not None and (calling.root is other.root or calling.draws_on(other))


def _key_of(event: Materialization) -> object:
    frame = _jax.user_frame(event.source)
    return event.cls, event.primitive, frame and (frame.file, frame.line)
