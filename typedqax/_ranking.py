"""The order of one primitive's handlers, and what in it is not settled."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from typedqax._candidates import CandidateIndex, bits
from typedqax._comparison import Comparisons, Relation
from typedqax._relations import Point
from typedqax._rule import Entry
from typedqax._value import ImplicitValue

Pair: TypeAlias = tuple[Entry, Entry]


@dataclass(frozen=True, slots=True)
class Tie:
    """Two handlers that match the same call, neither more specific, and nothing settles it.

    Attributes:
        first: the one that was declared first.
        second: the other.
        witness: such a call.
        partial: better handlers that settle a part of what both match.
    """

    first: Entry
    second: Entry
    witness: Point
    partial: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The handlers of one primitive, each before all that it beats.

    Attributes:
        primitive: the primitive's name.
        entries: the handlers that stand.
        beats: for each of them the positions of those it beats, as bits.
        ties: pairs of which neither beats the other, on a call that nothing settles.
        duplicates: pairs for exactly the same operands at the same precedence.
        idle: rules with replace=True that have nothing to replace.
        declared: all entries that were given, those that were replaced too.
        relations: of all pairs of one precedence (the earlier declared first) that share a call.
        settled: crossing pairs of which all common calls have a better handler.
        index: finds the entries that may take operands of given classes.
        position: where each entry stands in `entries`.
        classes: how many classes of two bases there were when it was made.
    """

    primitive: str
    entries: tuple[Entry, ...]
    beats: tuple[int, ...]
    ties: tuple[Tie, ...]
    duplicates: tuple[Pair, ...]
    idle: tuple[Entry, ...]
    declared: frozenset[Entry] = field(repr=False)
    relations: Mapping[Pair, Relation] = field(repr=False)
    settled: frozenset[Pair] = field(repr=False)
    index: CandidateIndex = field(repr=False)
    position: Mapping[Entry, int] = field(repr=False)
    classes: int = field(repr=False)

    @property
    def sound(self) -> bool:
        """Whether every call has at most one best handler."""
        return not (self.ties or self.duplicates or self.idle)

    def is_beaten(self, entry: Entry, by: Entry) -> bool:
        """Whether `by` beats `entry`."""
        return bool(self.beats[self.position[by]] >> self.position[entry] & 1)

    def sharing(self) -> Iterator[tuple[Entry, Entry, Relation]]:
        """The pairs of one precedence that share a call, and how they lie to each other."""
        for (first, second), relation in self.relations.items():
            if first in self.position and second in self.position:
                yield first, second, relation

    @property
    def current(self) -> bool:
        """Whether no class has been defined since that could make it ambiguous."""
        return not any(
            sum(concerns(entry, cls) for entry in self.entries) > 1
            for cls in _joined_since(self.classes)
        )


# Classes that derive from two implicit classes, weakly, in the order of their definition: only
# such a class can make handlers share a call that shared none before.
_joined: list[weakref.ref[type[ImplicitValue]]] = []


def note_joining_class(cls: type[ImplicitValue]) -> None:
    """Remember that `cls` joins two implicit classes, so that rankings are looked at again."""
    _joined.append(weakref.ref(cls))


def supersede(cls: type[ImplicitValue]) -> None:
    """Let what has just been defined take the place of an earlier class that joined two.

    A notebook cell that is run again, or a reload, leaves the class of its first run behind, which
    would make handlers ambiguous that no call can be.
    """
    name = (cls.__module__, cls.__qualname__)
    for earlier in _joined_since(0):
        if earlier is not cls and (earlier.__module__, earlier.__qualname__) == name:
            earlier._superseded = True  # read by subclasses()


def _joined_since(count: int) -> list[type[ImplicitValue]]:
    return [cls for cls in (each() for each in _joined[count:]) if cls is not None]


def concerns(entry: Entry, cls: type) -> bool:
    """Whether the entry may take operands of class `cls`."""
    return not entry.signature.classes.isdisjoint(cls.__mro__)


def rank(
    primitive: str,
    declared: Iterable[Entry],
    known: Sequence[Ranking] = (),
    comparisons: Comparisons | None = None,
) -> Ranking:
    """The order of `declared`, the same whatever the order they come in.

    `known` are rankings of some of them: what these have compared is not compared again.
    """
    classes = len(_joined)
    everything = sorted(dict.fromkeys(declared), key=_serial)
    sealing = CandidateIndex([entry.signature for entry in everything])
    comparisons = comparisons or Comparisons(entry.rule for entry in everything)
    relations = _relations(everything, sealing, known, comparisons)
    entries, idle = _standing(everything, relations)
    standing = frozenset(entries)
    living = {
        pair: relation
        for pair, relation in relations.items()
        if pair[0] in standing and pair[1] in standing
    }
    ordered = _in_order(entries, living)
    better = _better(ordered, living)
    index = CandidateIndex([entry.signature for entry in ordered])
    index.prepare()
    coverage = _Coverage(
        everything,
        sealing,
        better,
        _already_settled(standing, known, classes),
        comparisons,
    )
    settled, ties = coverage.judged(
        [pair for pair, each in living.items() if each is Relation.CROSSING]
    )
    return Ranking(
        primitive=primitive,
        entries=tuple(ordered),
        beats=_beats(ordered, better),
        ties=ties,
        duplicates=tuple(pair for pair, each in living.items() if each is Relation.EQUAL),
        idle=idle,
        declared=frozenset(everything),
        relations=relations,
        settled=settled,
        index=index,
        position={entry: place for place, entry in enumerate(ordered)},
        classes=classes,
    )


def _serial(entry: Entry) -> int:
    return entry.handler.origin.serial


def _relations(
    entries: Sequence[Entry],
    index: CandidateIndex,
    known: Sequence[Ranking],
    comparisons: Comparisons,
) -> dict[Pair, Relation]:
    """The relation of every pair of one precedence that shares a call."""
    found: dict[Pair, Relation] = {}
    number = {entry: place for place, entry in enumerate(entries)}
    decided = _decided(entries, number, known)
    for ranking in known:
        for pair, relation in ranking.relations.items():
            first, second = number.get(pair[0]), number.get(pair[1])
            if first is not None and second is not None and decided[first] >> second & 1:
                found[pair] = relation
    level: dict[int, int] = defaultdict(int)
    for place, entry in enumerate(entries):
        level[entry.precedence] |= 1 << place
    for place, entry in enumerate(entries):
        open_pairs = level[entry.precedence] >> (place + 1) << (place + 1) & ~decided[place]
        if not open_pairs:
            continue
        for other in bits(index.partners(place) & open_pairs):
            related = comparisons.relation(entry, entries[other])
            if related is not None:
                found[entry, entries[other]] = related
    return dict(sorted(found.items(), key=lambda item: (_serial(item[0][0]), _serial(item[0][1]))))


def _decided(
    entries: Sequence[Entry], number: Mapping[Entry, int], known: Sequence[Ranking]
) -> list[int]:
    """For each entry, those that it has been compared with, as bits."""
    decided = [0] * len(entries)
    for ranking in known:
        places = [number[entry] for entry in ranking.declared if entry in number]
        together = _mask(places)
        for place in places:
            decided[place] |= together
        for cls in _joined_since(ranking.classes):
            concerned = [place for place in places if concerns(entries[place], cls)]
            among = _mask(concerned)
            for place in concerned:
                decided[place] &= ~among
    return decided


def _mask(places: Iterable[int]) -> int:
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask


def _standing(
    entries: Sequence[Entry], relations: Mapping[Pair, Relation]
) -> tuple[list[Entry], tuple[Entry, ...]]:
    """The entries that are not replaced, and those that were to replace one but found none."""
    replacing = [entry for entry in entries if entry.rule.replace]
    if not replacing:
        return list(entries), ()
    same: dict[Entry, list[Entry]] = defaultdict(list)
    for (first, second), relation in relations.items():
        if relation is Relation.EQUAL:
            same[first].append(second)
            same[second].append(first)
    replaced: set[Entry] = set()
    idle = []
    for entry in replacing:
        plain = [other for other in same[entry] if not other.rule.replace]
        earlier = [
            other for other in same[entry] if other.rule.replace and _serial(other) < _serial(entry)
        ]
        if not plain:
            idle.append(entry)
        elif len(plain) == 1:
            replaced.update(plain, earlier)
    return [entry for entry in entries if entry not in replaced], tuple(idle)


def _in_order(entries: Sequence[Entry], relations: Mapping[Pair, Relation]) -> list[Entry]:
    """Higher precedence first, then what is narrower, then what was declared earlier."""
    waiting: dict[Entry, int] = dict.fromkeys(entries, 0)
    wider: dict[Entry, list[Entry]] = defaultdict(list)
    for (first, second), relation in relations.items():
        if relation is Relation.NARROWER:
            wider[first].append(second)
            waiting[second] += 1
        elif relation is Relation.WIDER:
            wider[second].append(first)
            waiting[first] += 1
    # Only pairs of one precedence have a relation, so precedence may lead the key of the heap:
    # nothing of a lower one is ever awaited by a higher one.
    ready = [(-e.precedence, _serial(e), e) for e in entries if not waiting[e]]
    heapify(ready)
    ordered = []
    while ready:
        *_, entry = heappop(ready)
        ordered.append(entry)
        for other in wider[entry]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, (-other.precedence, _serial(other), other))
    return ordered


def _better(
    ordered: Sequence[Entry], relations: Mapping[Pair, Relation]
) -> dict[Entry, set[Entry]]:
    """For each entry those of its own precedence that beat it."""
    better: dict[Entry, set[Entry]] = {entry: set() for entry in ordered}
    for (first, second), relation in relations.items():
        if relation is Relation.NARROWER:
            better[second].add(first)
        elif relation is Relation.WIDER:
            better[first].add(second)
    return better


def _beats(ordered: Sequence[Entry], better: Mapping[Entry, set[Entry]]) -> tuple[int, ...]:
    position = {entry: place for place, entry in enumerate(ordered)}
    beats = [0] * len(ordered)
    for entry, those in better.items():
        for other in those:
            beats[position[other]] |= 1 << position[entry]
    everything = (1 << len(ordered)) - 1
    end = len(ordered)
    for place in reversed(range(len(ordered))):
        if place + 1 < len(ordered) and (
            ordered[place].precedence != ordered[place + 1].precedence
        ):
            end = place + 1
        beats[place] |= everything >> end << end
    return tuple(beats)


def _already_settled(
    standing: frozenset[Entry], known: Sequence[Ranking], classes: int
) -> frozenset[Pair]:
    """Crossing pairs that need no second look: more handlers never uncover what was covered."""
    kept: set[Pair] = set()
    for ranking in known:
        if ranking.classes == classes and standing.issuperset(ranking.entries):
            kept |= ranking.settled
    return frozenset(kept)


class _Coverage:
    """Which crossing pairs are settled by better handlers that take every call they promise."""

    def __init__(
        self,
        everything: Sequence[Entry],
        index: CandidateIndex,
        better: Mapping[Entry, set[Entry]],
        settled: frozenset[Pair],
        comparisons: Comparisons,
    ) -> None:
        self._comparisons = comparisons
        self._everything = everything
        self._number = {entry: place for place, entry in enumerate(everything)}
        self._index = index
        self._better = better
        self._settled = settled
        self._total = _mask(
            place
            for place, entry in enumerate(everything)
            if entry in better and entry.handler.total
        )
        self._partners: dict[Entry, int] = {}

    def judged(self, crossing: Sequence[Pair]) -> tuple[frozenset[Pair], tuple[Tie, ...]]:
        """Those that are settled, and the ties that are left."""
        settled, ties = set(), []
        for pair in crossing:
            tie = None if pair in self._settled else self._tie(*pair)
            if tie is None:
                settled.add(pair)
            else:
                ties.append(tie)
        return frozenset(settled), tuple(ties)

    def _tie(self, first: Entry, second: Entry) -> Tie | None:
        near = self._better[first] | self._better[second]
        shared = self._sharing(first) & self._sharing(second) & self._total
        covers = [
            entry
            for entry in (self._everything[place] for place in bits(shared))
            if entry.precedence > first.precedence or entry in near
        ]
        if any(self._comparisons.covered_by_class(first, second, each) for each in covers):
            return None
        signatures = [entry.signature for entry in covers]
        witness = first.calls.uncovered(
            first.signature, second.signature, signatures, self._comparisons.universe
        )
        if witness is None:
            return None
        return Tie(first, second, witness, self._partial((first, second), covers))

    def _partial(self, pair: Pair, covers: Sequence[Entry]) -> tuple[Entry, ...]:
        """Those of `covers` that share calls with both."""
        return tuple(
            entry
            for entry in covers
            if all(self._comparisons.relation(entry, each) is not None for each in pair)
        )

    def _sharing(self, entry: Entry) -> int:
        partners = self._partners.get(entry)
        if partners is None:
            partners = self._partners[entry] = self._index.partners(self._number[entry])
        return partners
