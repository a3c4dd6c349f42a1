"""Explanations: what a whole run does with implicit arrays, as text, page and data."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from typedqax import _jax
from typedqax._dry_run import dry_run
from typedqax._errors import MaterializationError, UsageError, clipped, shortened, shown_argument
from typedqax._flow import Scope, Step
from typedqax._layout import Cell, human_bytes, short_place, table, terminal_width
from typedqax._lines import NOWHERE, Line, counted, lines_of, times
from typedqax._materialization import HasName, primitives_named
from typedqax._page import page
from typedqax._recording import Record, recording
from typedqax._run_page import run_page

P = ParamSpec("P")

_MOST_LINES, _MOST_NOTES = 8, 3
"""How many lines, and how much of each, an error shows."""

_RUN_HEAD = ("calls", "primitive and operands", "what ran", "where")


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a run does with implicit arrays.

    A call in the body of a loop, and in each branch of a `cond`, is one call: that is how often it
    stands in the program, however often it runs.

    Attributes:
        function: the name of what was run; empty if that was no function.
        lines: what happened, per primitive with the same operands, outcome and line of the user's
            code, in the order of first calls.
        flow: the same as it went: numbers of `lines`, in the scopes of the program.
    """

    function: str
    lines: tuple[Line, ...]
    flow: Scope[int]

    @classmethod
    def of(cls, record: Record, function: str = "") -> Explanation:
        """What the record of a run says."""
        return cls(function, *lines_of(record))

    @property
    def materialized(self) -> tuple[Line, ...]:
        """The lines on which something became dense."""
        return tuple([line for line in self.lines if line.handler is None])

    @property
    def handled(self) -> int:
        """How many calls ran a handler."""
        return sum(line.count for line in self.lines if line.handler is not None)

    @property
    def nbytes(self) -> int:
        """How many bytes became dense."""
        return sum(line.nbytes for line in self.materialized)

    @property
    def missing(self) -> dict[str, dict[str, int]]:
        """By class, the primitives that it became dense for and how often: handlers to write."""
        return self._dense_for(lambda line: line.lacks_handler)

    def _dense_for(self, wanted: Callable[[Line], bool]) -> dict[str, dict[str, int]]:
        found: dict[str, Counter[str]] = {}
        for line in self.materialized:
            for cls in line.dense if wanted(line) else ():
                found.setdefault(cls.__name__, Counter())[line.primitive] += line.count
        return {name: dict(counts.most_common()) for name, counts in found.items()}

    @property
    def totals(self) -> tuple[str, ...]:
        """What it comes to, in sentences."""
        dense = sum(line.count for line in self.materialized)
        if not self.lines:
            return ("No primitive met an implicit array.",)
        if not dense:
            return (f"{times(self.handled)} ran a handler; nothing became dense.",)
        made = f"{times(dense)} made an operand dense ({human_bytes(self.nbytes)})"
        forbidden = sum(line.count for line in self.materialized if line.forbidden)
        refused = [f"forbidden, and a MaterializationError in a run: {times(forbidden)} of these"]
        return (
            f"{times(self.handled)} ran a handler; {made}.",
            *(refused if forbidden else ()),
            *[
                f"{name}: {len(counts)} primitive{'s lack' if len(counts) > 1 else ' lacks'} a "
                f"handler: {counted(counts)}"
                for name, counts in self.missing.items()
            ],
            *[
                f"{name}: became dense, and not for want of a handler, for {counted(counts)}"
                for name, counts in self._dense_for(lambda line: not line.lacks_handler).items()
            ],
        )

    def __str__(self) -> str:
        return self.to_text(terminal_width())

    def __repr__(self) -> str:
        return str(self)

    def to_text(self, width: int) -> str:
        """A table at most `width` characters wide, and the totals."""
        if not self.lines:
            return self.totals[0]
        rows = [
            (
                (
                    Cell(str(line.count)),
                    Cell(line.call),
                    _outcome(line, width // 6),
                    _where(line, width // 4),
                ),
                line.short_notes,
            )
            for line in self.lines
        ]
        totals = [shortened(total, width) for total in self.totals]
        return "\n".join([table(_RUN_HEAD, rows, (6, 44, 26, 24), width), "", *totals])

    def __rich__(self) -> Any:
        """The table for rich, whose `print` asks for it, in colours and as wide as it may be."""
        if not self.lines:
            return self.totals[0]
        from rich.console import Group  # noqa: PLC0415  # only rich asks, so it is there
        from rich.table import Table  # noqa: PLC0415  # the same
        from rich.text import Text  # noqa: PLC0415  # the same

        shown = Table(box=None, pad_edge=False, header_style="bold")
        shown.add_column(_RUN_HEAD[0], justify="right")
        for title in _RUN_HEAD[1:]:
            shown.add_column(title, overflow="fold")
        for line in self.lines:
            call = Text(line.call)
            for note in line.short_notes:
                call.append(f"\n· {note}", style="dim")
            style = "green" if line.handler else "bold yellow"
            outcome, where = Text(str(_outcome(line)), style), Text(str(_where(line)))
            shown.add_row(str(line.count), call, outcome, where)
        good = "yellow" if self.materialized else "green"
        return Group(shown, "", *[Text(total, good) for total in self.totals])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for tools."""
        return {
            "function": self.function,
            "lines": [
                {
                    "primitive": line.primitive,
                    "operands": [str(operand) for operand in line.operands],
                    "count": line.count,
                    "handler": line.handler,
                    "place": line.place or None,
                    "bytes": line.nbytes,
                    "dense": [cls.__name__ for cls in line.dense],
                    "forbidden": line.forbidden,
                    "reasons": list(line.reasons),
                    "arguments": list(line.arguments),
                    "remedy": line.remedy,
                    "backward": line.backward,
                    "where": line.where,
                }
                for line in self.lines
            ],
            "flow": _flow_dict(self.flow),
            "handled": self.handled,
            "materialized": sum(line.count for line in self.materialized),
            "bytes": self.nbytes,
            "missing": self.missing,
        }

    def _repr_html_(self) -> str:
        """The run for notebooks: what it comes to, its flow, what became dense, what ran."""
        return run_page(self.function, self.lines, self.flow, self.totals)

    def to_html(self, path: str | Path) -> None:
        """Write the run as one page, which loads nothing from elsewhere."""
        title = f"typedqax: explain({self.function})" if self.function else "typedqax: explained"
        Path(path).write_text(page(title, self._repr_html_()), encoding="utf-8")

    @_jax.api_boundary
    def assert_no_materialization(
        self, *classes: type, allow: Iterable[str | HasName] = ()
    ) -> None:
        """For tests: nothing became dense, but for the primitives in `allow`.

        Args:
            classes: only these classes, and their subclasses, are asked about; all, if none.
            allow: primitives: their names, ops, or primitives themselves.

        Raises:
            MaterializationError: something did; the text has each line.
            UsageError: `classes` are none, or JAX has no such primitive.
        """
        for cls in classes:
            given: object = cls
            if not isinstance(given, type):
                raise UsageError(
                    f"assert_no_materialization({shown_argument(given)}): give classes; primitives "
                    f"that may be met go into allow=."
                )
        allowed = primitives_named(allow)
        dense = [
            line
            for line in self.materialized
            if line.primitive not in allowed
            and (not classes or any(issubclass(cls, classes) for cls in line.dense))
        ]
        if dense:
            shown = []
            for line in dense[:_MOST_LINES]:
                notes = line.notes[:_MOST_NOTES]
                if line.lacks_handler and not line.reasons:
                    notes = (f"no handler takes these operands of `{line.primitive}`", *notes)
                shown.append("\n    - ".join([f"  {shortened(str(line), 300)}", *notes]))
            if len(dense) > _MOST_LINES:
                shown.append(f"  ... and {len(dense) - _MOST_LINES} more")
            shown.append("Primitives that may be met go into allow=.")
            raise MaterializationError(
                clipped("\n".join(["implicit arrays became dense:", *shown]))
            )


def _outcome(line: Line, width: int = 40) -> Cell:
    """What ran, with its place in at most `width` characters."""
    if line.handler is None:
        return Cell(f"DENSE, {human_bytes(line.nbytes)}")
    return Cell(line.handler, f" ({short_place(line.place, width)})")


def _where(line: Line, width: int = 40) -> Cell:
    return Cell("", NOWHERE if line.where is None else short_place(line.where, width))


def _flow_dict(part: Scope[int] | Step[int]) -> dict[str, Any]:
    if isinstance(part, Step):
        return {"line": part.what, "count": part.count}
    parts = [_flow_dict(each) for each in part.parts]
    return {"name": part.name, "times": part.times, "parts": parts}


@_jax.api_boundary
def explain(function: Callable[P, object], /) -> Callable[P, Explanation]:
    """A function that takes what `function` does and tells what the run does with implicit arrays.

    Nothing is computed: arguments of more than 1024 elements and `jax.ShapeDtypeStruct`s have no
    numbers in the run, and what depends on none of these is computed only where Python asks, as in
    a branch. Whatever JAX remembers of earlier runs plays no part.

    Raises:
        UsageError: `function` is not callable.

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
    if not callable(function):
        raise UsageError(
            f"explain takes a function, not {type(function).__name__}: explain(f)(*args), not "
            f"explain(f(*args))."
        )

    @_jax.transform_boundary
    @functools.wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        with recording() as record:
            dry_run(function, args, kwargs)
        return Explanation.of(record, getattr(function, "__name__", type(function).__name__))

    return explained
