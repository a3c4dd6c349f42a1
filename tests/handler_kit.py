"""What the tests of handlers, tables and dispatch share: classes, primitives, and made handlers."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from typedqax._declined import Declined
from typedqax._dispatch import Resolution, Tables, resolve
from typedqax._errors import RefusedTableError
from typedqax._rule import Rule, Target
from typedqax._signature import Dense, Operand
from typedqax._table import HandlerTable
from typedqax._value import ImplicitValue


class Lora(ImplicitValue): ...


class Zero(ImplicitValue): ...


class SmallZero(Zero): ...


class Infinity(ImplicitValue): ...


MUL = Target("mul", None, ("out_dtype",), 2)
SUB = Target("sub", None, ("out_dtype",), 2)
ADD_ANY = Target("add_any", None, (), 2)
NEG = Target("neg", None, (), 1)
EXP = Target("exp", None, ("accuracy",), 1)
TRANSPOSE = Target("transpose", None, ("permutation",), 1)
CONCATENATE = Target("concatenate", None, ("dimension",), None)
DOT = Target(
    "dot_general",
    None,
    ("dimension_numbers", "precision", "preferred_element_type", "out_sharding"),
    2,
)
ANY = Target("*", None, None, None)


def made(
    *annotations: object,
    name: str = "handler",
    returns: object = None,
    module: str = __name__,
    rest: object = None,
) -> Callable[..., Any]:
    """A handler with these annotations of its operands; without `returns`, of no result.

    `returns=Declined` is a result that may be declined; `rest` annotates further operands.
    """

    def one(x: Any, /, **params: Any) -> Any:
        return (name, x, params)

    def two(x: Any, y: Any, /, **params: Any) -> Any:
        return (name, x, y, params)

    def three(x: Any, y: Any, z: Any, /, **params: Any) -> Any:
        return (name, x, y, z, params)

    def many(*xs: Any, **params: Any) -> Any:
        return (name, xs, params)

    template = many if rest is not None else (one, two, three)[len(annotations) - 1]
    copy = types.FunctionType(
        template.__code__, template.__globals__, name, None, template.__closure__
    )
    copy.__qualname__, copy.__module__ = name, module
    copy.__annotations__ = dict(zip(("x", "y", "z"), annotations, strict=False))
    if rest is not None:
        copy.__annotations__ = {"xs": rest}
    if returns is not None:
        copy.__annotations__["return"] = returns
    return copy


def rule(
    *annotations: object,
    of: Target | Iterable[Target] = MUL,
    name: str = "handler",
    returns: object = None,
    module: str = __name__,
    rest: object = None,
    **how: Any,
) -> Rule:
    """The rule of a made handler."""
    function = made(*annotations, name=name, returns=returns, module=module, rest=rest)
    return Rule.declare(function, (of,) if isinstance(of, Target) else of, **how)


def operand(cls: type = Dense, *shape: int, dtype: str = "float32") -> Operand:
    """An operand of a class; of shape `(2, 3)` if none is given."""
    return Operand(cls, dtype, shape or (2, 3))


def resolved(
    table: HandlerTable | None, primitive: str, *operands: Operand, isolated: bool = True
) -> Resolution:
    """What a table has for a call."""
    return resolve(Tables.of(table, isolated=isolated), primitive, operands)


def chain(
    table: HandlerTable | None, primitive: str, *operands: Operand, isolated: bool = True
) -> list[str]:
    """The names of the handlers that a table has for a call, best first."""
    found = resolved(table, primitive, *operands, isolated=isolated)
    return [candidate.entry.handler.name for candidate in found.chain]


MAYBE = Lora | Declined


def refused(*parts: Rule | HandlerTable) -> RefusedTableError:
    """The error that a table of these parts is."""
    with pytest.raises(RefusedTableError) as caught:
        HandlerTable("tested", *parts)
    return caught.value


def names_of(error: RefusedTableError) -> set[frozenset[str]]:
    """The ambiguous pairs of an error, by the names of the handlers."""
    return {frozenset({pair.first.name, pair.second.name}) for pair in error.pairs}


def infinite(**how: Any) -> Rule:
    """Infinity times anything."""
    return rule(Infinity, Any, name="infinite", **how)


def nothing(**how: Any) -> Rule:
    """Anything times zero."""
    return rule(Any, Zero, name="nothing", **how)


def undefined(**how: Any) -> Rule:
    """Infinity times zero."""
    return rule(Infinity, Zero, name="undefined", **how)
