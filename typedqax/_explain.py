"""Explanations: which handler a call would run, and what a whole run did with implicit arrays."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ParamSpec, Protocol

import jax

from typedqax import _jax, ops
from typedqax._aval import describe, is_array_like
from typedqax._dispatch import Tables, resolve
from typedqax._errors import MaterializationError
from typedqax._layout import (
    clipped,
    html_cell,
    html_fragment,
    html_page,
    human_bytes,
    short_place,
    table,
    terminal_width,
)
from typedqax._materialization import Materialization
from typedqax._misses import misses
from typedqax._recording import Application, Record, recording
from typedqax._signature import Operand
from typedqax._table import HandlerTable
from typedqax._transform import deciding_tables
from typedqax._value import ImplicitValue

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

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for tools."""
        return {
            "primitive": self.primitive,
            "operands": [str(operand) for operand in self.operands],
            "winner": None if self.winner is None else asdict(self.winner),
            "bindings": {
                name: list(size) if isinstance(size, tuple) else size
                for name, size in self.bindings.items()
            },
            "choices": [asdict(choice) for choice in self.choices],
        }

    def _repr_html_(self) -> str:
        """A table of the handlers, for notebooks."""
        sizes = ", ".join(f"{name} = {size}" for name, size in self.bindings.items())
        outcome = "implicit operands become dense" if self.winner is None else self.winner.handler
        rows = [
            (
                "fine" if choice is self.winner else "idle",
                [
                    html_cell("runs" if choice is self.winner else ""),
                    html_cell(f"{choice.handler}({choice.signature})"),
                    html_cell(short_place(choice.place), title=choice.place),
                    html.escape(choice.reason),
                ],
            )
            for choice in self.choices
        ]
        title = f"{self.primitive}({', '.join(map(str, self.operands))}): {outcome}"
        return html_fragment(title, [sizes] if sizes else [], _CHOICE_HEAD, rows)


_CHOICE_HEAD = ("", "handler", "written at", "why not")


def _name_of(op: object) -> str:
    """The name of the primitive that `op` is, stands for or names."""
    if isinstance(op, str):
        found = ops.find(op)
        if found is None:
            raise TypeError(f"which: JAX has no primitive {op!r}; see dir(typedqax.ops).")
        return found.name
    name = getattr(op, "name", None)
    if not isinstance(name, str):
        called = getattr(op, "__name__", type(op).__name__)
        raise TypeError(
            f"which takes an op of typedqax.ops, a primitive, or the name of one; {called!r} is "
            f"none. For what a whole function does, call typedqax.explain({called})(...)."
        )
    return name


def which(
    op: _HasName | str, /, *operands: Any, handlers: HandlerTable | None = None, **params: Any
) -> Which:
    """The handler that `op` would run on these operands, and how every other one stands to it.

    Nothing is computed. A handler may still decline when it runs.

    Args:
        op: an op of `typedqax.ops`, a primitive, or the name of one.
        operands: arrays, implicit arrays or `jax.ShapeDtypeStruct`s.
        handlers: a table to look in ahead of the installed ones.
        params: the params of the call; those left out play no part.

    Raises:
        TypeError: `op` is none. For a whole function, see `explain`.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> print(tq.which(tq.ops.add, jnp.ones(3), jnp.ones(3)))
        add(Array f32[3], Array f32[3]): no handler takes it; implicit operands become dense.
    """
    name = _name_of(op)
    described = tuple([describe(o if is_array_like(o) else _jax.canonicalize(o)) for o in operands])
    tables = deciding_tables() if handlers is None else Tables.of(handlers)
    resolution = resolve(tables, name, described, operands)
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
    for miss in misses(tables, name, described):
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
    return Which(name, described, winner, bindings, tuple(choices))


# --- a whole run ---------------------------------------------------------------------------------

NOWHERE = "no line of yours"
"""What is shown for a call that no line of the user's code makes, such as those in `jnp.sin` when
that itself is what was transformed and jitted."""


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
        where: the user's file and line; None: the call is in no line of the user's.
        dense: the classes that became dense.
    """

    primitive: str
    operands: tuple[Operand, ...]
    count: int
    handler: str | None
    nbytes: int
    reasons: tuple[str, ...]
    where: str | None
    dense: tuple[type[ImplicitValue], ...] = ()

    @property
    def call(self) -> str:
        """The first call, with its operands."""
        return f"{self.primitive}({', '.join(map(str, self.operands))})"

    def __str__(self) -> str:
        outcome = self.handler or f"became dense ({human_bytes(self.nbytes)})"
        return f"{self.count} x {self.call}: {outcome}, at {self.where or NOWHERE}"


_RUN_HEAD = ("calls", "primitive and operands", "what ran", "where")
_PLACE = re.compile(r"[^\s()'\"]+\.py:\d+")


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a run did with implicit arrays.

    Attributes:
        lines: per primitive, classes of operands and line of the user's code, in the order of
            first calls.
    """

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, record: Record) -> Explanation:
        """What a record of a run says."""
        groups: dict[Any, list[Application | Materialization]] = {}
        for event in record.events:
            frame = _jax.user_frame(event.source)
            where = None if frame is None else f"{frame.file}:{frame.line}"
            ran = f"{event.handler} ({event.place})" if isinstance(event, Application) else None
            kinds = tuple([operand.cls for operand in event.operands])
            groups.setdefault((event.primitive, kinds, ran, where), []).append(event)
        return cls(tuple([_line(key[2], key[3], events) for key, events in groups.items()]))

    @property
    def materialized(self) -> tuple[Line, ...]:
        """The lines on which something became dense."""
        return tuple([line for line in self.lines if line.handler is None])

    @property
    def missing(self) -> dict[str, dict[str, int]]:
        """By class, the primitives that it became dense for and how often: handlers to write."""
        found: dict[str, Counter[str]] = {}
        for line in self.materialized:
            for cls in line.dense:
                found.setdefault(cls.__name__, Counter())[line.primitive] += line.count
        return {name: dict(counts.most_common()) for name, counts in found.items()}

    @property
    def totals(self) -> tuple[str, ...]:
        """What it comes to, in sentences."""
        handled = sum(line.count for line in self.lines if line.handler is not None)
        dense = sum(line.count for line in self.materialized)
        nbytes = human_bytes(sum(line.nbytes for line in self.materialized))
        if not self.lines:
            return ("No primitive met an implicit array.",)
        if not dense:
            return (f"{_times(handled)} ran a handler; nothing became dense.",)
        return (
            f"{_times(handled)} ran a handler; {_times(dense)} made an operand dense ({nbytes}).",
            *[
                f"{name}: {len(counts)} primitive{'s lack' if len(counts) > 1 else ' lacks'} a "
                f"handler: {', '.join(f'{each} x{count}' for each, count in counts.items())}"
                for name, counts in self.missing.items()
            ],
        )

    def __str__(self) -> str:
        return self.to_text(terminal_width())

    def to_text(self, width: int) -> str:
        """A table at most `width` characters wide, and the totals."""
        if not self.lines:
            return self.totals[0]
        rows = [
            (
                (
                    str(line.count),
                    line.call,
                    _outcome(line, width // 6),
                    NOWHERE if line.where is None else short_place(line.where, width // 4),
                ),
                [_PLACE.sub(lambda found: short_place(found[0]), each) for each in line.reasons],
            )
            for line in self.lines
        ]
        totals = [clipped(total, width) for total in self.totals]
        return "\n".join([table(_RUN_HEAD, rows, (6, 44, 26, 24), width), "", *totals])

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
                    "dense": [cls.__name__ for cls in line.dense],
                    "reasons": list(line.reasons),
                    "where": line.where,
                }
                for line in self.lines
            ],
            "handled": sum(line.count for line in self.lines if line.handler is not None),
            "materialized": sum(line.count for line in self.materialized),
            "bytes": sum(line.nbytes for line in self.lines),
            "missing": self.missing,
        }

    def _repr_html_(self) -> str:
        """The run as a table, for notebooks; what became dense is marked."""
        rows = [
            (
                "dense" if line.handler is None else "fine",
                [
                    html_cell(str(line.count)),
                    html_cell(line.call, line.reasons),
                    html_cell(_outcome(line, 40), title=line.handler or ""),
                    html_cell(
                        NOWHERE if line.where is None else short_place(line.where),
                        title=line.where or "",
                    ),
                ],
            )
            for line in self.lines
        ]
        return html_fragment("What ran on implicit arrays", self.totals, _RUN_HEAD, rows)

    def to_html(self, path: str | Path) -> None:
        """Write the run as one page, which loads nothing from elsewhere."""
        page = html_page("typedqax: what ran on implicit arrays", self._repr_html_())
        Path(path).write_text(page, encoding="utf-8")

    def assert_no_materialization(self, *classes: type, allow: Sequence[str] = ()) -> None:
        """For tests: nothing became dense, but for primitives named in `allow`.

        Args:
            classes: only these classes, and their subclasses, are asked about; all, if none.
            allow: names of primitives.

        Raises:
            MaterializationError: something did; the text has each line.
        """
        if isinstance(allow, str):
            raise TypeError(f"allow={allow!r}: pass a sequence of primitive names, [{allow!r}].")
        dense = [
            line
            for line in self.materialized
            if line.primitive not in allow
            and (not classes or any(issubclass(cls, classes) for cls in line.dense))
        ]
        if dense:
            shown = [f"  {clipped(str(line), 300)}" for line in dense[:10]]
            more = [f"  ... and {len(dense) - 10} more"] if len(dense) > 10 else []
            raise MaterializationError("\n".join(["implicit arrays became dense:", *shown, *more]))


def _times(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _outcome(line: Line, width: int) -> str:
    """What ran, with its place in at most `width` characters."""
    if line.handler is None:
        return f"DENSE, {human_bytes(line.nbytes)}"
    return _PLACE.sub(lambda found: short_place(found[0], width), line.handler)


def _line(
    ran: str | None, where: str | None, events: Sequence[Application | Materialization]
) -> Line:
    first = events[0]
    if isinstance(first, Application):
        return Line(first.primitive, first.operands, len(events), ran, 0, first.declined, where)
    dense = [event for event in events if isinstance(event, Materialization)]
    # A call has an event for each of its implicit operands.
    calls = sum(1 / max(1, _implicit_operands(event)) for event in dense)
    return Line(
        first.primitive,
        first.operands,
        max(1, round(calls)),
        None,
        sum(event.nbytes or 0 for event in dense),
        first.reasons,
        where,
        tuple(dict.fromkeys(event.cls for event in dense)),
    )


def _implicit_operands(event: Materialization) -> int:
    return sum(issubclass(operand.cls, ImplicitValue) for operand in event.operands)


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
    call: Callable[..., object] = function

    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        leaves, tree = jax.tree.flatten((args, kwargs))
        large = [i for i, leaf in enumerate(leaves) if is_array_like(leaf) and leaf.size > _SMALL]

        def run(values: list[Any]) -> None:
            filled = list(leaves)
            for index, value in zip(large, values, strict=True):
                filled[index] = value
            inner_args, inner_kwargs = jax.tree.unflatten(tree, filled)
            call(*inner_args, **inner_kwargs)

        with recording() as record, jax.ensure_compile_time_eval():
            jax.eval_shape(run, [leaves[index] for index in large])
        return Explanation.of(record)

    return explained
