"""Dispatch: the chain of handlers for a primitive on some operands, and its cache."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, final

from typedqax._candidates import bits
from typedqax._closure import closes_over
from typedqax._errors import AmbiguityError, UsageError
from typedqax._installed import Installed, installed_now
from typedqax._jax import Trace, Tracer, around, is_staging
from typedqax._ranking import Ranking
from typedqax._signature import Match, Operand
from typedqax._table import Entry, HandlerTable
from typedqax._unsettled import ambiguous_pair

# Beyond so many keys a cache starts anew: a program that comes this far has shapes without end.
_MOST_CLASSES = 1_024
_MOST_KEYS = 4_096

ANY_PRIMITIVE = "*"
"""The name under which a table holds what runs for any primitive, before materialization."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A handler that takes a call.

    Attributes:
        entry: the rule, under its primitive.
        match: which alternatives it took, and the sizes of its axis names.
        swapped: whether to call it with its two operands exchanged.
    """

    entry: Entry
    match: Match
    swapped: bool


@final
class Resolution:
    """The handlers that take a call, each before all that it beats.

    Attributes:
        chain: the handlers; empty if there is none.
        ties: by position in the chain, those that are as good as the one there.
        call: the call as texts show it, when there is a tie.
    """

    __slots__ = ("call", "chain", "ties")

    def __init__(
        self, chain: tuple[Candidate, ...], ties: dict[int, tuple[int, ...]], call: str
    ) -> None:
        self.chain = chain
        self.ties = ties
        self.call = call

    def __repr__(self) -> str:
        return f"<Resolution {' > '.join(each.entry.handler.name for each in self.chain)}>"

    def ambiguous_after(self, declined: int) -> AmbiguityError | None:
        """The error that the call is, once the first `declined` of the chain have declined."""
        if not self.ties:
            return None
        others = self.ties.get(declined)
        if others is None:
            return None
        best = self.chain[declined].entry
        pairs = [ambiguous_pair(best, self.chain[other].entry, self.call) for other in others]
        gone = [f"`{each.entry.handler.name}`" for each in self.chain[:declined]]
        after = f" after {', '.join(gone)} declined" if gone else ""
        return AmbiguityError(f"{self.call} has no single best handler{after}.", pairs)


_NOTHING = Resolution((), {}, "")


@final
class Tables:
    """Where handlers are looked for, in order; compared by what it looks in.

    Attributes:
        extra: a table ahead of the installed ones, or None.
        isolated: whether the installed ones are left out.
        gone: the name of a table that these were of, if it exists no more.
        rewritten: functions that were rewritten with these handlers, by what they were. It is kept
            here, and not beside other caches, so that it goes with the table.
    """

    __slots__ = (
        "__weakref__",
        "_closed_over",
        "_resolvers",
        "_watch",
        "extra",
        "gone",
        "isolated",
        "rewritten",
    )

    def __init__(
        self, extra: HandlerTable | None, isolated: bool, *, gone: str | None = None
    ) -> None:
        self.extra = extra
        self.isolated = isolated
        self.gone = gone
        self._closed_over: tuple[weakref.ref[Trace], ...] | None = None
        self._resolvers: dict[str, _Resolver] = {}
        self._watch: weakref.ref[Installed] | None = None
        self.rewritten: weakref.WeakKeyDictionary[Any, dict[Hashable, Any]] = (
            weakref.WeakKeyDictionary()
        )

    @classmethod
    def of(cls, extra: HandlerTable | None = None, *, isolated: bool = False) -> Tables:
        """The one object for these, with what it has resolved before."""
        if extra is None:
            return _ISOLATED if isolated else _INSTALLED
        found: Tables = extra.views.setdefault(isolated, cls(extra, isolated))
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tables):
            return NotImplemented
        same = self.extra is other.extra and self.isolated == other.isolated
        return same and self.gone == other.gone

    def __hash__(self) -> int:
        return hash((id(self.extra), self.isolated, self.gone))

    def __repr__(self) -> str:
        return f"Tables({self.extra!r}, isolated={self.isolated})"

    def rankings(self, primitive: str) -> tuple[Ranking, ...]:
        """The rankings in which a handler of `primitive` is looked for, in order."""
        return _rankings(self, primitive, installed_now())

    def closed_over(self) -> tuple[weakref.ref[Trace], ...]:
        """The traces of the tracers that handlers of the extra table are seen to close over."""
        if self._closed_over is None:
            rules = () if self.extra is None else self.extra.rules
            traces: dict[int, Trace] = {}

            def keep(found: Any) -> bool:
                if _is_tracer(found):
                    traces[id(found._trace)] = found._trace
                return False

            closes_over(keep, *[rule.handler.function for rule in rules])
            self._closed_over = tuple(map(weakref.ref, traces.values()))
        return self._closed_over

    def _resolver(self, primitive: str, now: Installed) -> _Resolver:
        if self.gone is not None:
            raise UsageError(
                f"{primitive} meets an implicit array where the handlers of {self.gone!r} decide, "
                f"but that table is gone with the function that made it. A handler of it closes "
                f"over a tracer of that function: pass the handler what it needs as an operand, or "
                f"a field of its class."
            )
        rankings = _rankings(self, primitive, now)
        resolver = self._resolvers.get(primitive)
        if resolver is None or resolver.rankings != rankings:
            resolver = self._resolvers[primitive] = _Resolver(primitive, rankings)
        resolver.version = now.version
        if self._watch is None or self._watch() is not now:
            self._forget(now)
        return resolver

    def _forget(self, now: Installed) -> None:
        """Drop what was resolved in tables that are gone, now and at the next change.

        A change would be noticed at the next call of each primitive anyway; but until then, what
        has been uninstalled could not go.
        """
        self._resolvers = {
            primitive: resolver
            for primitive, resolver in self._resolvers.items()
            if resolver.rankings == _rankings(self, primitive, now)
        }
        tables = weakref.ref(self)

        # Bound here: at the interpreter's end the module's own names are gone before its objects.
        def changed(
            _: weakref.ref[Installed],
            is_over: Callable[[], bool] = sys.is_finalizing,
            current: Callable[[], Installed] = installed_now,
        ) -> None:
            living = tables()
            if living is not None and not is_over():
                living._forget(current())

        self._watch = weakref.ref(now, changed)


_INSTALLED = Tables(None, isolated=False)
_ISOLATED = Tables(None, isolated=True)


def _is_tracer(found: object) -> bool:
    return issubclass(type(found), Tracer)  # of a proxy, isinstance may run code


def _rankings(tables: Tables, primitive: str, now: Installed) -> tuple[Ranking, ...]:
    sources = [] if tables.extra is None else [tables.extra.rankings]
    if not tables.isolated:
        sources.append(now.rankings)
    names = (primitive,) if primitive == ANY_PRIMITIVE else (primitive, ANY_PRIMITIVE)
    return tuple(source[name] for name in names for source in sources if name in source)


def resolve(
    tables: Tables,
    primitive: str,
    operands: Sequence[Operand],
    values: Sequence[object] | None = None,
) -> Resolution:
    """The handlers of `primitive` for a call with these operands.

    Those of the extra table come first, then the installed ones, then what either has for any
    primitive. Validators are asked about `values`, when those are given.
    """
    # The common path: what is installed is what it was, and such operands have been seen. It is
    # written out for one and for two operands, which takes half a microsecond where the general
    # way takes two (CPython 3.11).
    resolver = tables._resolvers.get(primitive)  # the cache that resolve() keeps
    now = installed_now()
    if resolver is None or resolver.version != now.version:
        resolver = tables._resolver(primitive, now)
    key: tuple[object, ...]
    if len(operands) == 2:
        first, second = operands
        kinds: tuple[int, ...] = (id(first.cls), id(second.cls))
        family = resolver.families.get(kinds) or resolver.family(kinds, operands)
        if family.constant is not None:
            return family.constant
        (shape, other_shape), (dtype, other_dtype) = family.looks
        key = (
            first.shape if shape else None,
            second.shape if other_shape else None,
            first.dtype if dtype else None,
            second.dtype if other_dtype else None,
        )
    elif len(operands) == 1:
        (only,) = operands
        kinds = (id(only.cls),)
        family = resolver.families.get(kinds) or resolver.family(kinds, operands)
        if family.constant is not None:
            return family.constant
        (shape,), (dtype,) = family.looks
        key = (only.shape if shape else None, only.dtype if dtype else None)
    else:
        kinds = tuple([id(operand.cls) for operand in operands])
        family = resolver.families.get(kinds) or resolver.family(kinds, operands)
        if family.constant is not None:
            return family.constant
        shapes, dtypes = family.looks
        key = (
            *[operand.shape for operand, seen in zip(operands, shapes, strict=True) if seen],
            *[operand.dtype for operand, seen in zip(operands, dtypes, strict=True) if seen],
        )
    known = family.known.get(key)
    if known is None:
        known = family.resolved(key, operands)
    if family.opaque and values is not None:
        return family.without_cache(operands, values)
    return known


class WeakTables:
    """A reference to tables that keeps alive neither them nor what their handlers close over."""

    __slots__ = ("_hash", "_name", "_tables", "_traces")

    def __init__(self, tables: Tables) -> None:
        self._name = "" if tables.extra is None else tables.extra.name
        self._tables = weakref.ref(tables)
        self._traces = tables.closed_over()
        self._hash = hash(tables)

    def tables(self, trace: Trace) -> Tables:
        """The tables, for a primitive that is applied in `trace`.

        When they are gone, or the function that was staged with what their handlers close over is
        over, no handler can be asked.
        """
        tables = self._tables()
        if tables is not None:
            outward = list(around(trace))
            staged = [found for each in self._traces if is_staging(found := each())]
            if all(any(found is each for each in outward) for found in staged):
                return tables
        return Tables(None, isolated=True, gone=self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeakTables) and self._tables == other._tables

    def __hash__(self) -> int:
        return self._hash


class _Resolver:
    """What has been resolved of one primitive in some rankings."""

    __slots__ = ("__weakref__", "_watched", "families", "primitive", "rankings", "version")

    def __init__(self, primitive: str, rankings: tuple[Ranking, ...]) -> None:
        self.primitive = primitive
        self.rankings = rankings
        self.version = -1
        # Keyed by the ids of classes, not by the classes, so that the cache keeps none alive;
        # what concerns a class is dropped when it goes, before its id can come again.
        self.families: dict[tuple[int, ...], _Family] = {}
        self._watched: dict[int, weakref.ref[type]] = {}

    def family(self, kinds: tuple[int, ...], operands: Sequence[Operand]) -> _Family:
        """What is known of calls with operands of these classes; made when first asked for."""
        classes = [operand.cls for operand in operands]
        candidates = tuple(
            tuple(ranking.entries[place] for place in bits(ranking.index.taking(classes)))
            for ranking in self.rankings
        )
        family = _Family(self.primitive, self.rankings, candidates, operands)
        if len(self.families) >= _MOST_CLASSES:
            self.families = {}
        self.families[kinds] = family
        for cls in classes:
            if id(cls) not in self._watched:
                self._watched[id(cls)] = weakref.ref(cls, self._forgetting(id(cls)))
        return family

    def drop(self, gone: int) -> None:
        """Forget all about the class of this id."""
        self._watched.pop(gone, None)
        self.families = {
            kinds: family for kinds, family in self.families.items() if gone not in kinds
        }

    def _forgetting(self, gone: int) -> Callable[[weakref.ref[type]], None]:
        """What drops all that is known of a class when the class ceases to exist."""
        resolver = weakref.ref(self)

        def forget(_: weakref.ref[type]) -> None:
            living = resolver()
            if living is not None:
                living.drop(gone)

        return forget


class _Family:
    """What has been resolved of calls whose operands have certain classes.

    Attributes:
        constant: the answer, when it depends on nothing else.
        looks: of each operand whether some candidate looks at its shape; the same of dtypes.
        opaque: whether some candidate looks at values.
        known: answers by those shapes and dtypes.
    """

    __slots__ = (
        "candidates",
        "constant",
        "known",
        "looks",
        "opaque",
        "primitive",
        "rankings",
    )

    def __init__(
        self,
        primitive: str,
        rankings: tuple[Ranking, ...],
        candidates: tuple[tuple[Entry, ...], ...],
        operands: Sequence[Operand],
    ) -> None:
        self.primitive = primitive
        self.rankings = rankings
        self.candidates = candidates
        looks = [entry.rule.looks for each in candidates for entry in each]
        seen = [
            {what for own in looks for what in own[min(place, len(own) - 1)]}
            for place in range(len(operands))
        ]
        shapes = tuple(["shape" in each for each in seen])
        dtypes = tuple(["dtype" in each for each in seen])
        self.looks = (shapes, dtypes)
        self.opaque = any("value" in each for each in seen)
        self.known: dict[tuple[object, ...], Resolution] = {}
        self.constant: Resolution | None = None
        if not (any(shapes) or any(dtypes) or self.opaque):
            self.constant = self.without_cache(operands)

    def resolved(self, key: tuple[object, ...], operands: Sequence[Operand]) -> Resolution:
        """The answer for operands of this key; kept."""
        found = self.without_cache(operands)
        if len(self.known) >= _MOST_KEYS:
            self.known = {}
        self.known[key] = found
        return found

    def without_cache(
        self, operands: Sequence[Operand], values: Sequence[object] | None = None
    ) -> Resolution:
        """The answer, found anew; validators are asked about `values`, when those are given."""
        chain: list[Candidate] = []
        ties: dict[int, tuple[int, ...]] = {}
        for ranking, entries in zip(self.rankings, self.candidates, strict=True):
            matching = [
                Candidate(entry, match, match.swapped)
                for entry in entries
                if (match := entry.signature.match(operands, values)) is not None
            ]
            for position, others in _ties(ranking, matching) if len(matching) > 1 else ():
                ties[len(chain) + position] = tuple(len(chain) + other for other in others)
            chain += matching
        if not chain:
            return _NOTHING
        call = f"{self.primitive}({', '.join(map(str, operands))})" if ties else ""
        found = Resolution(tuple(chain), ties, call)
        return found if len(chain) == 1 else _without_repeats(found)


def _ties(ranking: Ranking, matching: Sequence[Candidate]) -> list[tuple[int, tuple[int, ...]]]:
    """By position, those of the rest of `matching` that nothing in that rest beats.

    In a sealed table there are none unless a handler without a return annotation declines, or
    packages meet; asking costs little where it is asked, and catches what sealing may have missed.
    """
    places = [ranking.position[candidate.entry] for candidate in matching]
    found = []
    beaten = 0
    for position in reversed(range(len(matching))):
        beaten |= ranking.beats[places[position]]
        others = tuple(
            other for other in range(position + 1, len(matching)) if not beaten >> places[other] & 1
        )
        if others:
            found.append((position, others))
    return found


def _without_repeats(resolution: Resolution) -> Resolution:
    """`resolution`, a rule that is in two tables standing for itself once."""
    chain = resolution.chain
    rules = [candidate.entry.rule for candidate in chain]
    if len(set(rules)) == len(rules):
        return resolution
    first = [place for place, rule in enumerate(rules) if rule not in rules[:place]]
    position = {place: new for new, place in enumerate(first)}
    ties = {
        position[place]: tuple(position[other] for other in others if other in position)
        for place, others in resolution.ties.items()
        if place in position
    }
    return Resolution(
        tuple(chain[place] for place in first),
        {place: others for place, others in ties.items() if others},
        resolution.call,
    )
