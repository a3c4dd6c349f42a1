"""Findings about a table that are no reason to refuse it, for `check` to list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from typedqax._comparison import Relation
from typedqax._domains import COMMUTATIVE
from typedqax._handler import Handler
from typedqax._ranking import Ranking
from typedqax._rule import Entry, Rule, named
from typedqax._table import HandlerTable
from typedqax._unsettled import unsettled

Severity: TypeAlias = Literal["error", "warning", "note"]

CODES: Mapping[str, str] = {
    "always-declines": "a handler that takes no call at all",
    "ambiguous": "a call that two handlers match, neither being more specific",
    "annotation": "an annotation that has no value, or that no array can have",
    "arity": "a handler of another number of operands than its primitive",
    "class": "class keywords of an implicit class",
    "commutative": "commutative=True where operands have an order",
    "declined-param": "a param with which a handler declines (a note)",
    "duplicate": "two handlers of exactly the same operands",
    "field": "fields of an implicit class that nothing fits, or that are no arrays",
    "handler": "what cannot be called as a handler",
    "ignored-param": "a param swallowed by **_ that decides which numbers come out",
    "import": "an import that fails",
    "inherited-handler": "handlers of a base with another materialize (a warning)",
    "materialize": "a materialize that raises, or is not as annotated",
    "not-entered": "a policy, or a block of declarations, without `with`",
    "one-sided": "a handler without a counterpart for the other order of operands",
    "operand-name": "an operand that has a param's name",
    "precedence": "a precedence that is no whole number",
    "result": "a result, or an annotation of it, that the primitive does not have",
    "shape": "the text of a shape",
    "table": "what is no rule in a table, no table to install, or no op of a group",
    "unbound-axis": "an axis that no operand gives a size",
    "undeclared-decline": "a DECLINE that the return annotation does not have",
    "unknown-param": "a param that the primitive does not have on this JAX",
    "unknown-primitive": "a primitive that this JAX does not have",
    "unreachable": "a handler that no call reaches, or that better ones leave none",
}
"""Every code of a finding, and what it is about."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something about a handler that its author should know.

    Attributes:
        file: where the handler was written.
        line: the line there.
        code: what kind of finding it is, one of `CODES`.
        text: what was found and what to do, without the place.
        severity: `"error"`; or `"warning"` for what gives wrong numbers unless it is meant; or
            `"note"` for what may well be meant.
        packages: the top-level packages whose code it is about.
    """

    file: str
    line: int
    code: str
    text: str
    severity: Severity = "error"
    packages: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.severity}: {self.text}  [{self.code}]"


def findings(table: HandlerTable) -> list[Finding]:
    """All findings about a table, each once, sorted by place."""
    found: set[Finding] = set()
    found.update(_refusable(table.rankings))
    for ranking in table.rankings.values():
        found.update(_one_sided(ranking))
    for rule in table.rules:
        found.update(_params(rule))
    found.update(_unreachable(table))
    return sorted(found)


def _at(
    handler: Handler,
    code: str,
    text: str,
    *others: Handler,
    severity: Severity = "error",
) -> Finding:
    packages = frozenset(each.origin.package for each in (handler, *others))
    return Finding(handler.place.file, handler.place.line, code, text, severity, packages)


def _refusable(rankings: Mapping[str, Ranking]) -> Iterator[Finding]:
    """What one table would be refused for: between packages, or since a table was taken out."""
    pairs, duplicates = unsettled(rankings.values())
    places = {
        str(entry.handler.place): entry.handler
        for ranking in rankings.values()
        for entry in ranking.declared
    }
    for pair in pairs:
        first, second = places[pair.first.place], places[pair.second.place]
        yield _at(second, "ambiguous", f"{pair.brief()}; {pair.remedy()}", first)
    for duplicate in duplicates:
        first, second = places[duplicate.first.place], places[duplicate.second.place]
        yield _at(second, "duplicate", duplicate.brief(), first)


def _unreachable(table: HandlerTable) -> Iterator[Finding]:
    """Handlers that never run; of a group's handler, that it does for some only is but noted."""
    idle: dict[Rule, list[str]] = defaultdict(list)
    for rule in table.rules:
        for entry in rule.entries:
            if entry.calls.reaching(entry.signature) is None:
                text = f"for `{entry.target.name}`, which does not take such operands"
                idle[rule].append(text)
    for ranking in table.rankings.values():
        for entry, text in _shadowed(ranking):
            idle[entry.rule].append(text)
    for rule, texts in idle.items():
        severity: Severity = "error" if len(texts) >= len(rule.targets) else "note"
        for text in texts:
            whole = f"`{rule.handler.name}` never runs {text}"
            yield _at(rule.handler, "unreachable", whole, severity=severity)


def _shadowed(ranking: Ranking) -> Iterator[tuple[Entry, str]]:
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
            yield (
                entry,
                (
                    f"for `{ranking.primitive}`: every call that it takes is taken by "
                    f"{_named(better)} first"
                ),
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
        yield from _one_order(ranking)
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


def _one_order(ranking: Ranking) -> Iterator[Finding]:
    """Rules for (A, B) of a commutative primitive beside none for (B, A), which may be meant."""
    for entry in ranking.entries:
        if not _two_kinds(entry) or entry.rule.commutative:
            continue
        mirror = entry.signature.mirrored()
        others = [other.signature for other in ranking.entries]
        call = entry.calls.uncovered(mirror, mirror, others)
        if call is not None:
            shown = ", ".join(map(str, call))
            text = (
                f"`{entry.handler.name}` takes one order of `{ranking.primitive}`, and nothing "
                f"takes {ranking.primitive}({shown}): commutative=True stands for both"
            )
            yield _at(entry.handler, "one-sided", text, severity="note")


def _two_kinds(entry: Entry) -> bool:
    """Whether the entry takes exactly two operands, of kinds that differ."""
    signature = entry.signature
    if signature.variadic or signature.fixed_arity != 2 or signature.accepts_arity(1):
        return False
    return signature.classes_at(0) != signature.classes_at(1)


def _params(rule: Rule) -> Iterator[Finding]:
    """Params that a handler names and no primitive has."""
    handler, known = rule.handler, [t.params for t in rule.targets if t.params is not None]
    if len(known) == len(rule.targets):
        have = frozenset().union(*known)
        for name in sorted(handler.params.optional - have):
            yield _at(
                handler,
                "unknown-param",
                f"`{handler.name}` names the param `{name}`, which "
                f"{named(rule.targets)} never gives; misspelt?",
            )
