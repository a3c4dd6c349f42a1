"""Which: the handler that a call would run, and how every other one stands to the call."""

from __future__ import annotations

import difflib
import html
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from typedqax import _jax, ops
from typedqax._aval import describe, is_array_like
from typedqax._dispatch import ANY_PRIMITIVE, Tables, resolve
from typedqax._errors import UsageError
from typedqax._handler import Handler
from typedqax._layout import short_place, terminal_width
from typedqax._materialization import HasName
from typedqax._misses import misses
from typedqax._page import cell, chip, code, fragment, heading, row, table
from typedqax._scope import RULES, deciding_tables
from typedqax._signature import Dense, Operand
from typedqax._table import HandlerTable
from typedqax._trace import enclosing_trace


@dataclass(frozen=True, slots=True)
class Choice:
    """A handler and how it stands to a call.

    Attributes:
        handler: its name.
        place: its file and line.
        signature: its operands with their annotations.
        applies: whether it takes the call.
        reason: why it does not; or, where it does, when it runs.
    """

    handler: str
    place: str
    signature: str
    applies: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.handler}({self.signature})  {short_place(self.place, 60)}"


@dataclass(frozen=True, slots=True, repr=False)
class Which:
    """The handler that a call would run, and why.

    Attributes:
        primitive: the primitive's name.
        operands: the operands of the call.
        winner: the first handler to be tried; None where there is none.
        outcome: what becomes of the call, in a few words.
        bindings: what the winner's axis names stand for in this call.
        choices: all handlers of the primitive: those that apply in the order in which they are
            tried, then the others, the nearest first.
    """

    primitive: str
    operands: tuple[Operand, ...]
    winner: Choice | None
    outcome: str
    bindings: Mapping[str, Any]
    choices: tuple[Choice, ...]

    @property
    def call(self) -> str:
        """The call, with its operands."""
        return f"{self.primitive}({', '.join(map(str, self.operands))})"

    @property
    def _sizes(self) -> str:
        return ", ".join(f"{name} = {size}" for name, size in self.bindings.items())

    def __str__(self) -> str:
        lines = [f"{self.call}: {self.outcome}"]
        if self.bindings:
            lines.append(f"  with {self._sizes}")
        count = 0
        for choice in self.choices:
            count += choice.applies
            lines.append(f"  {count if choice.applies else '-'}  {choice}")
            lines += textwrap.wrap(
                choice.reason, terminal_width(), initial_indent=" " * 5,
                subsequent_indent=" " * 5, break_on_hyphens=False, break_long_words=False,
            )  # fmt: skip
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for tools."""
        return {
            "primitive": self.primitive,
            "operands": [str(operand) for operand in self.operands],
            "winner": None if self.winner is None else asdict(self.winner),
            "outcome": self.outcome,
            "bindings": {
                name: list(size) if isinstance(size, tuple) else size
                for name, size in self.bindings.items()
            },
            "choices": [asdict(choice) for choice in self.choices],
        }

    def _repr_html_(self) -> str:
        """The handlers as a table, for notebooks."""
        rows = [
            row(
                "fine" if choice is self.winner else "idle",
                cell(chip("runs", "fine") if choice is self.winner else ""),
                cell(code(f"{choice.handler}({choice.signature})")),
                cell(code(short_place(choice.place), title=choice.place)),
                cell(html.escape(choice.reason)),
            )
            for choice in self.choices
        ]
        parts = [
            heading(self.call, self.outcome + (f", with {self._sizes}" if self._sizes else ""))
        ]
        if rows:
            parts.append(table(("", "handler", "written at", "why"), rows))
        return fragment(*parts)


@_jax.transform_boundary
def which(
    op: HasName | str,
    /,
    *operands: object,
    handlers: HandlerTable | None = None,
    **params: object,
) -> Which:
    """The handler that `op` would run on these operands, and how every other one stands to it.

    Nothing is computed. A handler that may decline may still do so when it runs.

    Args:
        op: an op of `typedqax.ops`, a primitive, or the name of one.
        operands: arrays, implicit arrays, `jax.ShapeDtypeStruct`s, or implicit arrays of those.
        handlers: a table to look in ahead of the installed ones.
        params: the params of the call; those left out play no part.

    Raises:
        UsageError: `op` is no primitive, or cannot be called with such operands and params.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> print(tq.which(tq.ops.add, jnp.ones(3), jnp.ones(3)))
        add(Array f32[3], Array f32[3]): no operand is implicit, so no handler is asked.
    """
    name, known = _primitive_named(op)
    if handlers is not None and not isinstance(handlers, HandlerTable):
        raise UsageError(f"handlers= takes a HandlerTable, not {type(handlers).__name__}.")
    trace = enclosing_trace()
    lowered = operands if trace is None else [trace.lower(operand) for operand in operands]
    values = [_value(place, operand) for place, operand in enumerate(lowered, 1)]
    described = tuple([describe(value) for value in values])
    if known is not None:
        params = _whole_params(known, len(operands), params)
    if all(operand.cls is Dense for operand in described):
        return Which(name, described, None, _NOTHING_IMPLICIT, {}, ())
    tables = deciding_tables() if handlers is None else Tables.of(handlers)
    return _decided(name, described, values, tables, params)


_NOTHING_IMPLICIT = "no operand is implicit, so no handler is asked."


def _decided(
    name: str, operands: tuple[Operand, ...], values: list[Any], tables: Tables, params: Any
) -> Which:
    resolution = resolve(tables, name, operands, values)
    choices: list[Choice] = []
    winner, bindings, outcome = None, {}, ""
    before: list[str] = []  # those that are tried first, and may decline
    has_rule = name in RULES.primitives
    for place, candidate in enumerate(resolution.chain):
        handler = candidate.entry.handler
        ambiguous = resolution.ambiguous_after(place)
        if ambiguous is not None and not outcome:
            outcome = f"AmbiguityError: {str(ambiguous).partition(chr(10))[0]}"
        accepted = handler.accepted(params)
        if isinstance(accepted, str):
            choices.append(_choice(handler, f"it would decline: {accepted}", applies=False))
            continue
        last = has_rule and candidate.entry.target.name == ANY_PRIMITIVE
        when = _when(handler, before, last, candidate.swapped)
        if ambiguous is not None:
            when += "; others are as good, so that this is an AmbiguityError"
        choice = _choice(handler, when, applies=True)
        choices.append(choice)
        if not outcome:
            winner, bindings = choice, dict(candidate.match.bindings)
            outcome = f"{handler.name} ({short_place(choice.place, 60)})"
        before.append(handler.name)
    # Those that apply go first; a handler that declines for its params may have been between them.
    choices.sort(key=lambda choice: not choice.applies)
    choices += [
        _choice(miss.entry.handler, miss.reason, applies=False)
        for miss in misses(tables, name, operands)
    ]
    if not outcome:
        outcome = _BY_RULE if has_rule else "no handler takes it; implicit operands become dense."
    return Which(name, operands, winner, outcome, bindings, tuple(choices))


_BY_RULE = (
    "no handler takes it; it is applied to the fields where that can be done, and what cannot "
    "becomes dense."
)


def _choice(handler: Handler, reason: str, *, applies: bool) -> Choice:
    place = str(handler.place)
    return Choice(handler.name, place, handler.signature.render(), applies, reason)


def _when(handler: Handler, before: list[str], last: bool, swapped: bool) -> str:
    """When a handler that takes a call is tried."""
    if last:
        said = "after what is done for any such primitive"
    elif before:
        said = f"if {before[-1]} declines"
    else:
        said = "the most specific one"
    may = "" if handler.declines == "never" else "; it may decline"
    return f"{said}{', its operands swapped' if swapped else ''}{may}"


# --- what was asked ------------------------------------------------------------------------------


def _primitive_named(op: object) -> tuple[str, ops.AnyOp | None]:
    """The name of the primitive that `op` is, stands for or names, and its op if it has one."""
    if isinstance(op, str):
        found = ops.find(op)
        if found is None:
            near = difflib.get_close_matches(op, dir(ops), n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            computing = ops.computing(op)
            if computing is not None:
                meant = f" JAX computes it by {computing!r}."
            raise UsageError(f"which: JAX has no primitive {op!r}.{meant} See dir(typedqax.ops).")
        return found.name, found
    if isinstance(op, ops.AnyOp):
        return op.name, op
    if isinstance(op, ops.AnyGroup):
        raise UsageError(f"which takes one op; {op!r} is a group of them.")
    if isinstance(op, _jax.Primitive):
        return op.name, ops.find(op)
    called = getattr(op, "__name__", None)
    shown = repr(called) if isinstance(called, str) else f"of type {type(op).__name__}"
    advice = ""
    if callable(op) and not isinstance(op, type) and isinstance(called, str):
        function = called if called.isidentifier() else "f"
        advice = f" For what a whole function does, call typedqax.explain({function})(...)."
    raise UsageError(
        f"which takes an op of typedqax.ops, a primitive, or the name of one; what was given is "
        f"{shown}.{advice}"
    )


def _value(place: int, operand: Any) -> Any:
    """An operand as primitives take it."""
    if is_array_like(operand) and not isinstance(operand, type):
        return operand
    if isinstance(operand, (bool, int, float, complex, np.generic)):
        return _jax.canonicalize(operand)
    given = (
        f"the class {operand.__name__}; pass an instance, whose fields may be ShapeDtypeStructs"
        if isinstance(operand, type)
        else f"of type {type(operand).__name__}"
    )
    raise UsageError(
        f"which: operand {place} is {given}. Operands are arrays, implicit arrays, "
        f"jax.ShapeDtypeStructs and numbers; params go by keyword."
    )


def _whole_params(op: ops.AnyOp, count: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a call of `op`, None standing for what was left out.

    Raises:
        UsageError: there is no such call.
    """
    if op.arity is not None and op.arity != count:
        takes = f"{op.arity} operand{'s' if op.arity != 1 else ''}"
        raise UsageError(f"which: {op!r} takes {takes}, and got {count}; params go by keyword.")
    for name in given:
        if name not in op.params:
            near = difflib.get_close_matches(name, op.params, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            has = ", ".join(op.params) or "none"
            raise UsageError(f"which: {op!r} has no param {name!r}.{meant} It has: {has}.")
    return {**dict.fromkeys(op.params), **given}
