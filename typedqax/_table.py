"""Handler tables: immutable sets of rules, sealed whole or refused whole."""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, final

from typedqax import _jax
from typedqax._collecting import is_collecting, refuse
from typedqax._comparison import Comparisons
from typedqax._errors import TypedQaxError, UsageError, refusal
from typedqax._origin import Origin, Place
from typedqax._ranking import Ranking, rank
from typedqax._rule import Entry, Rule, Target
from typedqax._unsettled import unsettled

__all__ = ["Entry", "HandlerTable", "Part", "Rule", "Target"]


@final
class HandlerTable:
    """An immutable set of rules in which every call has at most one best handler.

    It is made of rules and of other tables, in any order, and checked as a whole: when anything
    is wrong, all of it is reported at once and there is no table.

    Attributes:
        name: what texts call it.
        rules: all that it was made of, without those that a later run of the same
            definition has superseded.
        rankings: by primitive, its handlers in order.
        origin: where it was made.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> class Zeros(tq.ImplicitArray):
        ...     def materialize(self) -> jax.Array:
        ...         return jnp.zeros(self.shape, self.dtype)
        >>> def negate(x: Zeros, /) -> Zeros:
        ...     return x
        >>> tq.HandlerTable("zeros", tq.ops.neg.to(negate))
        <HandlerTable 'zeros': 1 rule for neg>
    """

    __slots__ = ("__weakref__", "name", "origin", "rankings", "rules", "views")

    name: str
    rules: tuple[Rule, ...]
    rankings: Mapping[str, Ranking]
    origin: Origin
    # What others keep for as long as the table exists, such as what was resolved in it.
    views: dict[object, Any]

    @_jax.api_boundary
    def __init__(self, name: str, /, *rules_or_tables: Rule | HandlerTable) -> None:
        name, rules_or_tables = _named(name, rules_or_tables)
        frame = _jax.calling_frame()  # its module names the table's origin
        place = Place(frame.f_code.co_filename, frame.f_lineno)
        origin = Origin.of(frame.f_globals.get("__name__", "__main__"), name, place, frame.f_code)
        parts = _checked_parts(name, rules_or_tables)
        rules = current_rules(rule for part in parts for rule in rules_of(part))
        known = [part.rankings for part in parts if isinstance(part, HandlerTable)]
        rankings = ranked(rules, known)
        pairs, duplicates = unsettled(rankings.values())
        if (pairs or duplicates) and not is_collecting():
            raise refusal(
                f"table {name!r} was not registered (nothing changed).", pairs, duplicates
            )
        self._fill(name, rules, rankings, origin)
        _live.add(self)

    def _fill(
        self,
        name: str,
        rules: tuple[Rule, ...],
        rankings: Mapping[str, Ranking],
        origin: Origin,
    ) -> None:
        for attribute, value in (
            ("name", name),
            ("rules", rules),
            ("rankings", rankings),
            ("origin", origin),
            ("views", {}),
        ):
            object.__setattr__(self, attribute, value)

    @classmethod
    def assembled(
        cls,
        name: str,
        rules: tuple[Rule, ...],
        rankings: Mapping[str, Ranking],
        origin: Origin,
    ) -> HandlerTable:
        """A table whose parts have been checked elsewhere; it may have ties."""
        table = object.__new__(cls)
        table._fill(name, rules, rankings, origin)
        return table

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(
            f"a HandlerTable never changes; compose a new one: HandlerTable(name, {self.name}, ...)"
        )

    def __delattr__(self, attribute: str) -> None:
        self.__setattr__(attribute, None)

    def entries(self, primitive: str) -> tuple[Entry, ...]:
        """The handlers of a primitive, each before all that it beats."""
        ranking = self.rankings.get(primitive)
        return () if ranking is None else ranking.entries

    @property
    def primitives(self) -> tuple[str, ...]:
        """The names of the primitives that it has handlers for, sorted."""
        return tuple(sorted(self.rankings))

    def __len__(self) -> int:
        return len(self.rules)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        rules = f"{len(self.rules)} rule{'' if len(self.rules) == 1 else 's'}"
        shown = ", ".join(self.primitives[:8]) + (", ..." if len(self.primitives) > 8 else "")
        return f"<HandlerTable {self.name!r}: {rules} for {shown or 'nothing'}>"

    def __reduce__(self) -> Any:
        raise TypedQaxError(
            f"a HandlerTable is not pickled; import the module that makes {self.name!r} instead"
        )

    def __copy__(self) -> HandlerTable:
        return self

    def __deepcopy__(self, memo: object) -> HandlerTable:
        return self


Part: TypeAlias = Rule | HandlerTable
"""What a table is made of."""


def _named(name: object, parts: tuple[Part, ...]) -> tuple[str, tuple[Part, ...]]:
    """The name and the parts; where the name was forgotten and that is collected, all as parts."""
    if isinstance(name, str):
        return name, parts
    text = f"the first argument of HandlerTable is its name, a string; got {_kind(name)}"
    refuse(UsageError(text))
    return "", (name, *parts) if isinstance(name, (Rule, HandlerTable)) else parts


def _checked_parts(name: str, parts: tuple[object, ...]) -> tuple[Part, ...]:
    """`parts`, after asking that each is what a table is made of."""
    for part in parts:
        if isinstance(part, (list, tuple, set, frozenset)):
            text = (
                f"table {name!r} is made of rules and tables, each an argument of its own; got a "
                f"{_kind(part)} of {len(part)}. Unpack it: HandlerTable({name!r}, *rules)"
            )
            refuse(UsageError(text))
        elif not isinstance(part, (Rule, HandlerTable)):
            called = getattr(part, "__name__", None) or _kind(part)
            text = (
                f"table {name!r} is made of rules and tables; {called!r} is neither. "
                f"Say what it handles: ops.<primitive>.to({called})"
            )
            refuse(UsageError(text))
    return tuple(part for part in parts if isinstance(part, (Rule, HandlerTable)))


def _kind(value: object) -> str:
    return type(value).__name__


class _LiveTables:
    """All sealed tables that still exist, for reports about what is declared but not installed."""

    def __init__(self) -> None:
        self._tables: weakref.WeakSet[HandlerTable] = weakref.WeakSet()
        self._lock = threading.Lock()

    def add(self, table: HandlerTable) -> None:
        with self._lock:
            self._tables.add(table)

    def sorted(self) -> list[HandlerTable]:
        with self._lock:
            return sorted(self._tables, key=lambda table: table.origin.serial)


_live = _LiveTables()


def live_tables() -> list[HandlerTable]:
    """Every sealed table that still exists, in the order of declaration."""
    return _live.sorted()


def rules_of(part: Rule | HandlerTable) -> tuple[Rule, ...]:
    """The rules that a part of a table brings."""
    return part.rules if isinstance(part, HandlerTable) else (part,)


def current_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """`rules`, each once, without those whose definition has come again since."""
    distinct = tuple(dict.fromkeys(rules))
    by_name: dict[tuple[str, str], list[Rule]] = defaultdict(list)
    for rule in distinct:
        origin = rule.handler.origin
        by_name[origin.module, origin.qualname].append(rule)
    superseded: set[Rule] = set()
    for alike in by_name.values():
        # All that a loop or a factory makes has one code object, and stands or falls together.
        origins = sorted((rule.handler.origin for rule in alike), key=lambda each: each.serial)
        latest = {id(each.code): each for each in origins}
        if len(latest) > 1:
            superseded.update(
                old
                for old in alike
                if any(new.supersedes(old.handler.origin) for new in latest.values())
            )
    return tuple(rule for rule in distinct if rule not in superseded)


def ranked(
    rules: Sequence[Rule], known: Sequence[Mapping[str, Ranking]] = ()
) -> dict[str, Ranking]:
    """The rankings of all primitives that `rules` are for; `known` ones are used again."""
    by_primitive: dict[str, list[Entry]] = defaultdict(list)
    for rule in rules:
        for entry in rule.entries:
            by_primitive[entry.target.name].append(entry)
    comparisons = Comparisons(rules)
    found = {}
    for primitive, entries in by_primitive.items():
        have = [each[primitive] for each in known if primitive in each]
        declared = frozenset(entries)
        same = (each for each in have if each.declared == declared and each.current)
        found[primitive] = next(same, None) or rank(primitive, entries, have, comparisons)
    return found
