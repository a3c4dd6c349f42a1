"""What is not settled among handlers: the facts of each ambiguity and duplicate, for an error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from typedqax._domains import COMMUTATIVE
from typedqax._errors import AmbiguousPair, Duplicate
from typedqax._meet import meet
from typedqax._ranking import Pair, Ranking, Tie
from typedqax._rule import Entry, Rule
from typedqax._signature import Dense
from typedqax._value import ImplicitValue
from typedqax._written import WrittenClass


def unsettled(
    rankings: Iterable[Ranking],
) -> tuple[list[AmbiguousPair], list[Duplicate]]:
    """What is wrong with these rankings, sorted; one finding for all primitives of a group."""
    ties: dict[tuple[Rule, Rule], list[tuple[Ranking, Tie]]] = defaultdict(list)
    doubles: dict[tuple[Rule | None, Rule], list[tuple[Ranking, Pair | Entry]]] = defaultdict(list)
    for ranking in sorted(rankings, key=lambda each: each.primitive):
        for tie in ranking.ties:
            ties[tie.first.rule, tie.second.rule].append((ranking, tie))
        for pair in ranking.duplicates:
            doubles[pair[0].rule, pair[1].rule].append((ranking, pair))
        for entry in ranking.idle:
            doubles[None, entry.rule].append((ranking, entry))
    pairs = [_ambiguous_pair(found) for found in ties.values()]
    duplicates = [_duplicate(found) for found in doubles.values()]
    return (
        sorted(pairs, key=lambda each: (each.primitive, each.first.place, each.second.place)),
        sorted(duplicates, key=lambda each: (each.primitive, each.first.place, each.second.place)),
    )


def _ambiguous_pair(found: Sequence[tuple[Ranking, Tie]]) -> AmbiguousPair:
    tie = found[0][1]
    return ambiguous_pair(
        tie.first,
        tie.second,
        f"{tie.first.target.name}({', '.join(map(str, tie.witness))})",
        partial=tie.partial,
        classes=_places_of_classes(tie),
        also=tuple(ranking.primitive for ranking, _ in found[1:]),
    )


def _places_of_classes(tie: Tie) -> tuple[str, ...]:
    """Where those classes of the witness stand that neither handler names."""
    named = tie.first.signature.classes | tie.second.signature.classes | {Dense, ImplicitValue}
    found = {operand.cls: WrittenClass.of(operand.cls) for operand in tie.witness}
    return tuple(
        f"{cls.__name__} is the class at {written.place()}"
        for cls, written in found.items()
        if cls not in named and written.found
    )


def ambiguous_pair(
    first: Entry,
    second: Entry,
    witness: str,
    *,
    partial: Sequence[Entry] = (),
    also: tuple[str, ...] = (),
    classes: tuple[str, ...] = (),
) -> AmbiguousPair:
    """The facts about two handlers of which neither is more specific."""
    a, b = first.signature, second.signature
    both_orders = _narrower_in_one_order(first, second) or _narrower_in_one_order(second, first)
    # The handler that would settle it is then the one that is there, in one order alone.
    settling = None if both_orders else meet(a, b, first.calls.domain)
    return AmbiguousPair(
        primitive=first.target.name,
        op=first.target.attribute,
        precedence=first.precedence,
        first=first.handler.facts(),
        second=second.handler.facts(),
        witness=witness,
        mirrored=_mirrored(first, second),
        both_orders=both_orders,
        meet=None if settling is None else settling.render(),
        opaque=a.has_predicates and b.has_predicates,
        partial=tuple(entry.handler.facts() for entry in partial),
        also=also,
        classes=classes,
    )


def _narrower_in_one_order(narrow: Entry, wide: Entry) -> str | None:
    """The name of `narrow`, if only its standing for both orders keeps it from being narrower."""
    if not narrow.rule.commutative or wide.rule.commutative:
        return None
    own = narrow.handler.signature
    inside = any(wide.calls.outside(each, wide.signature) is None for each in (own, own.mirrored()))
    return narrow.handler.name if inside else None


def _mirrored(first: Entry, second: Entry) -> bool:
    """Whether one handler, for both orders, could stand for both."""
    if first.target.name not in COMMUTATIVE or first.rule.commutative or second.rule.commutative:
        return False
    a, b = first.signature, second.signature
    two = all(each.fixed_arity == 2 and not each.variadic for each in (a, b))
    if not two:
        return False
    mirror, calls = a.mirrored(), first.calls
    return calls.outside(mirror, b) is None and calls.outside(b, mirror) is None


def _duplicate(found: Sequence[tuple[Ranking, Pair | Entry]]) -> Duplicate:
    what = found[0][1]
    first, second = (what, what) if isinstance(what, Entry) else what
    if first.rule.replace and not second.rule.replace:
        first, second = second, first
    return Duplicate(
        primitive=first.target.name,
        op=first.target.attribute,
        precedence=first.precedence,
        first=first.handler.facts(),
        second=second.handler.facts(),
        missing=isinstance(what, Entry),
        also=tuple(ranking.primitive for ranking, _ in found[1:]),
    )
