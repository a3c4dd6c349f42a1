"""Rules and the tables that hold them: sealed whole, or refused whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from typedqax._handler import Handler


@dataclass(frozen=True, slots=True)
class Target:
    """One primitive that a rule is for.

    Attributes:
        name: the primitive's own name (`prim.name`); `"*"` for what runs before materialization.
        first: what the handler is given ahead of its operands (an op or a primitive), or None.
        params: the names of the primitive's params on this JAX; None: not known.
        arity: how many operands it takes; None: it varies.
        multiple_results: whether it returns a list.
    """

    name: str
    first: object | None = None
    params: tuple[str, ...] | None = None
    arity: int | None = None
    multiple_results: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A handler, the primitives it is for, and how it stands to others."""

    handler: Handler
    targets: tuple[Target, ...]
    precedence: int = 0
    commutative: bool = False
    replace: bool = False

    @classmethod
    def declare(
        cls,
        function: Callable[..., Any],
        targets: Iterable[Target],
        *,
        precedence: int = 0,
        commutative: bool = False,
        replace: bool = False,
        takes_first: bool = False,
    ) -> Rule:
        """The rule that `function` computes `targets`.

        Raises:
            SignatureError: no call could ever reach the function, or it cannot be read.
        """
        handler = Handler.of(function, takes_first=takes_first)
        return cls(handler, tuple(targets), precedence, commutative, replace)


class HandlerTable:
    """An immutable set of rules, without ambiguities."""

    __slots__ = ("__weakref__", "name", "rules")

    name: str
    rules: tuple[Rule, ...]

    def __init__(self, name: str, /, *rules_or_tables: Rule | HandlerTable) -> None:
        self.name = name
        rules: list[Rule] = []
        for part in rules_or_tables:
            rules.extend(part.rules if isinstance(part, HandlerTable) else [part])
        self.rules = tuple(dict.fromkeys(rules))
