"""Explanations: which handler a call would run, and what a whole run did with implicit arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol

import jax

from typedqax import _jax
from typedqax._aval import describe, is_array_like
from typedqax._dispatch import Tables, resolve
from typedqax._errors import MaterializationError
from typedqax._materialization import Materialization
from typedqax._misses import misses
from typedqax._recording import Application, Record, recording
from typedqax._signature import Operand
from typedqax._table import HandlerTable
from typedqax._transform import deciding_tables

P = ParamSpec("P")

_SMALL = 1024
"""The most elements that an argument may have to keep its values while a run is explained."""


# --- one call ------------------------------------------------------------------------------------


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A handler and how it stands to a call.

    Attributes:
        handler: its name.
        place: its file and line.
        signature: its operands with their annotations.
        applies: whether it takes the call.
        reason: why it does not; or, where it does, what becomes of it.
    """

    handler: str
    place: str
    signature: str
    applies: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Which:
    """The handler that a call would run, and why.

    Attributes:
        primitive: the primitive's name.
        operands: the operands of the call.
        winner: the first handler to be tried; None: the operands would be materialized.
        bindings: what its axis names stand for in this call.
        choices: all handlers of the primitive: those that apply in order, then the nearest.
    """

    primitive: str
    operands: tuple[Operand, ...]
    winner: Choice | None
    bindings: Mapping[str, Any]
    choices: tuple[Choice, ...]

    def __str__(self) -> str:
        call = f"{self.primitive}({', '.join(map(str, self.operands))})"
        if self.winner is None:
            lines = [f"{call}: no handler takes it; implicit operands become dense."]
        else:
            lines = [f"{call}: {self.winner.handler} ({self.winner.place})"]
            if self.bindings:
                sizes = ", ".join(f"{name} = {size}" for name, size in self.bindings.items())
                lines.append(f"  with {sizes}")
        for choice in self.choices:
            mark = "+" if choice.applies else "-"
            shown = f"  {mark} {choice.handler}({choice.signature})  {choice.place}"
            lines.append(f"{shown}: {choice.reason}" if choice.reason else shown)
        return "\n".join(lines)


def which(
    op: _HasName, /, *operands: Any, handlers: HandlerTable | None = None, **params: Any
) -> Which:
    """The handler that `op` would run on these operands, and how every other one stands to it.

    Nothing is computed. A handler may still decline when it runs.

    Args:
        op: an op of `typedqax.ops`, or a primitive.
        operands: arrays, implicit arrays or `jax.ShapeDtypeStruct`s.
        handlers: a table to look in ahead of the installed ones.
        params: the params of the call; those left out play no part.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> print(tq.which(tq.ops.add, jnp.ones(3), jnp.ones(3)))
        add(Array f32[3], Array f32[3]): no handler takes it; implicit operands become dense.
    """
    described = tuple(
        [describe(o if is_array_like(o) else _jax.canonicalize(o)) for o in operands]
    )
    tables = deciding_tables() if handlers is None else Tables.of(handlers)
    resolution = resolve(tables, op.name, described, operands)
    choices: list[Choice] = []
    winner, bindings = None, {}
    for candidate in resolution.chain:
        handler = candidate.entry.handler
        accepted = handler.accepted(params) if params else {}
        reason = accepted if isinstance(accepted, str) else ""
        choice = Choice(
            handler.name, str(handler.place), handler.signature.render(), not reason, reason
        )
        if winner is None and not reason:
            winner, bindings = choice, dict(candidate.match.bindings)
        choices.append(choice)
    for miss in misses(tables, op.name, described):
        handler = miss.entry.handler
        choices.append(
            Choice(
                handler.name,
                str(handler.place),
                handler.signature.render(),
                applies=False,
                reason=miss.reason,
            )
        )
    return Which(op.name, described, winner, bindings, tuple(choices))


# --- a whole run ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """What happened for one primitive on one line of the user's code.

    Attributes:
        primitive: the primitive's name.
        operands: its operands, as in the first call.
        count: how many calls.
        handler: the handler that ran, with its file and line; None: an operand became dense.
        nbytes: the bytes that became dense in all calls.
        reasons: why they did, or which handlers declined before the one that ran.
        where: the user's file and line.
    """

    primitive: str
    operands: tuple[Operand, ...]
    count: int
    handler: str | None
    nbytes: int
    reasons: tuple[str, ...]
    where: str

    def __str__(self) -> str:
        call = f"{self.primitive}({', '.join(map(str, self.operands))})"
        if self.handler is not None:
            outcome = self.handler
        else:
            outcome = f"MATERIALIZED {self.nbytes} bytes"
        return f"{self.count:>4} x {call}  ->  {outcome}  at {self.where}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a run did with implicit arrays.

    Attributes:
        lines: per primitive and line of the user's code, in the order of first calls.
    """

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, record: Record) -> Explanation:
        """What a record of a run says."""
        return _explanation(record)

    @property
    def materialized(self) -> tuple[Line, ...]:
        """The lines on which something became dense."""
        return tuple([line for line in self.lines if line.handler is None])

    def __str__(self) -> str:
        handled = sum(line.count for line in self.lines if line.handler is not None)
        dense = self.materialized
        total = (
            f"{handled} calls ran a handler; {sum(line.count for line in dense)} made an operand "
            f"dense ({sum(line.nbytes for line in dense)} bytes)."
        )
        rows: list[str] = []
        for line in self.lines:
            rows.append(str(line))
            rows += [f"         {reason}" for reason in line.reasons]
        return "\n".join([*rows, total])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for tools."""
        return {
            "lines": [
                {
                    "primitive": line.primitive,
                    "operands": [str(operand) for operand in line.operands],
                    "count": line.count,
                    "handler": line.handler,
                    "bytes": line.nbytes,
                    "reasons": list(line.reasons),
                    "where": line.where,
                }
                for line in self.lines
            ]
        }

    def assert_no_materialization(self, *, allow: Sequence[str] = ()) -> None:
        """For tests: nothing became dense but for the primitives named in `allow`.

        Raises:
            MaterializationError: something did; the text has each line.
        """
        dense = [line for line in self.materialized if line.primitive not in allow]
        if dense:
            raise MaterializationError("\n".join(["operands became dense:", *map(str, dense)]))


def explain(function: Callable[P, Any], /) -> Callable[P, Explanation]:
    """A function that takes what `function` does and tells what the run does with implicit arrays.

    The run is abstract: large arguments have no values in it, small ones keep theirs, so that
    Python branches on them run. Whatever JAX remembers of earlier runs plays no part.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> class Zeros(tq.ImplicitArray):
        ...     def materialize(self) -> jax.Array:
        ...         return jnp.zeros(self.shape, self.dtype)
        >>> f = tq.use_implicit_args(lambda x: -x)
        >>> explanation = tq.explain(f)(Zeros(shape=(3,), dtype=jnp.float32))
        >>> [line.primitive for line in explanation.materialized]
        ['neg']
    """

    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        leaves, tree = jax.tree.flatten((args, kwargs))
        large = [i for i, leaf in enumerate(leaves) if is_array_like(leaf) and leaf.size > _SMALL]

        def run(values: list[Any]) -> None:
            filled = list(leaves)
            for index, value in zip(large, values, strict=True):
                filled[index] = value
            inner_args, inner_kwargs = jax.tree.unflatten(tree, filled)
            function(*inner_args, **inner_kwargs)

        with recording() as record, jax.ensure_compile_time_eval():
            jax.eval_shape(run, [leaves[index] for index in large])
        return _explanation(record)

    return explained


def _explanation(record: Record) -> Explanation:
    groups: dict[Any, list[Application | Materialization]] = {}
    for event in record.events:
        frame = _jax.user_frame(event.source)
        where = "?" if frame is None else f"{frame.file}:{frame.line}"
        outcome = event.handler if isinstance(event, Application) else None
        groups.setdefault((event.primitive, outcome, where), []).append(event)
    return Explanation(tuple([_line(key[2], events) for key, events in groups.items()]))


def _line(where: str, events: Sequence[Application | Materialization]) -> Line:
    first = events[0]
    if isinstance(first, Application):
        return Line(
            first.primitive,
            first.operands,
            len(events),
            f"{first.handler} ({first.place})",
            0,
            first.declined,
            where,
        )
    return Line(
        first.primitive,
        first.operands,
        len(events),
        None,
        sum(e.nbytes or 0 for e in events if isinstance(e, Materialization)),
        first.reasons,
        where,
    )
