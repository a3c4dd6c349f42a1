"""Findings about a table that are no reason to refuse it, for `check` to list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from typedqax._comparison import Relation
from typedqax._domains import COMMUTATIVE
from typedqax._handler import Handler
from typedqax._ranking import Ranking
from typedqax._rule import Entry, Rule
from typedqax._table import HandlerTable, findings_of


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something about a handler that its author should know.

    Attributes:
        file: where the handler was written.
        line: the line there.
        code: what kind of finding it is, such as `ambiguous`.
        text: what was found and what to do, without the place.
    """

    file: str
    line: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: error: {self.text}  [{self.code}]"


def findings(table: HandlerTable) -> list[Finding]:
    """All findings about a table, each once, sorted by place."""
    found: set[Finding] = set()
    found.update(_refusable(table.rankings))
    for ranking in table.rankings.values():
        found.update(_unreachable(ranking))
        found.update(_one_sided(ranking))
    for rule in table.rules:
        found.update(_params(rule))
        found.update(_idle_targets(rule))
    return sorted(found)


def _at(handler: Handler, code: str, text: str) -> Finding:
    return Finding(handler.place.file, handler.place.line, code, text)


def _refusable(rankings: Mapping[str, Ranking]) -> Iterator[Finding]:
    """What one table would be refused for: between packages, or since a table was taken out."""
    pairs, duplicates = findings_of(rankings.values())
    places = {
        str(entry.handler.place): entry.handler
        for ranking in rankings.values()
        for entry in ranking.declared
    }
    for pair in pairs:
        yield _at(places[pair.second.place], "ambiguous", pair.brief())
    for duplicate in duplicates:
        yield _at(places[duplicate.second.place], "duplicate", duplicate.brief())


def _unreachable(ranking: Ranking) -> Iterator[Finding]:
    """Handlers of which every call is taken by better ones that never decline."""
    for entry in ranking.entries:
        better = [
            other
            for other in ranking.entries
            if other.handler.declines == "never" and ranking.is_beaten(entry, other)
        ]
        if not better:
            continue
        own = entry.signature
        if entry.calls.uncovered(own, own, [other.signature for other in better]) is None:
            names = _named(better)
            yield _at(
                entry.handler,
                "unreachable",
                f"`{entry.handler.name}` never runs for `{ranking.primitive}`: every call that it "
                f"takes is taken by {names} first",
            )


def _named(entries: Iterable[Entry]) -> str:
    shown = [f"`{entry.handler.name}` ({entry.handler.place})" for entry in entries]
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _one_sided(ranking: Ranking) -> Iterator[Finding]:
    """Rules for (A, B) beside none for (B, A), so that this falls to a more general one.

    The general one then sees operands that it was not written for: of `sub`, say, a subclass on
    the right that only the left had a rule for.
    """
    if ranking.primitive in COMMUTATIVE:
        return
    for first, second, relation in ranking.sharing():
        if relation is Relation.NARROWER:
            narrow, general = first, second
        elif relation is Relation.WIDER:
            narrow, general = second, first
        else:
            continue
        if not _two_kinds(narrow):
            continue
        mirror = narrow.signature.mirrored()
        better = [other.signature for other in ranking.entries if ranking.is_beaten(general, other)]
        call = general.calls.uncovered(mirror, general.signature, better)
        if call is not None:
            shown = ", ".join(map(str, call))
            yield _at(
                narrow.handler,
                "one-sided",
                f"`{narrow.handler.name}` has no counterpart for the other order: "
                f"{ranking.primitive}({shown}) falls to `{general.handler.name}` "
                f"({general.handler.place})",
            )


def _two_kinds(entry: Entry) -> bool:
    """Whether the entry takes exactly two operands, of kinds that differ."""
    signature = entry.signature
    if signature.variadic or signature.fixed_arity != 2 or signature.accepts_arity(1):
        return False
    return signature.classes_at(0) != signature.classes_at(1)


def _params(rule: Rule) -> Iterator[Finding]:
    """Params that a handler names and no primitive has, and those that make it decline."""
    handler, known = rule.handler, [t.params for t in rule.targets if t.params is not None]
    if len(known) == len(rule.targets):
        have = frozenset().union(*known)
        for name in sorted(handler.params.optional - have):
            yield _at(
                handler,
                "unknown-param",
                f"`{handler.name}` names the param `{name}`, which "
                f"{_ops(rule)} never gives; misspelt?",
            )
    if handler.params.rest == "declined":
        have = frozenset().union(*known)
        for name in sorted(have - handler.params.named):
            yield _at(
                handler,
                "declined-param",
                f"`{handler.name}` declines every call in which `{name}` is not None; name it, "
                "or take **params",
            )


def _ops(rule: Rule) -> str:
    names = [f"`{target.name}`" for target in rule.targets]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _idle_targets(rule: Rule) -> Iterator[Finding]:
    """Primitives of a group of which no call can reach the handler."""
    for entry in rule.entries:
        if entry.calls.reaching(entry.signature) is None:
            yield _at(
                rule.handler,
                "unreachable",
                f"`{rule.handler.name}` never runs for `{entry.target.name}`, which does not take "
                "such operands",
            )
