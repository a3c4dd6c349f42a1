"""The order of handlers: what classes alone decide quickly is what the exact relations say."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Mapping
from typing import Any

import pytest
from jax import Array
from jaxtyping import Float, Shaped

from tests.handler_kit import DOT, MAYBE, MUL, Lora, SmallZero, Zero, made, rule
from tests.resolver_world import CASES, operands, signature
from typedqax._comparison import Comparisons, Relation
from typedqax._domains import Calls
from typedqax._handler import Handler
from typedqax._ranking import Ranking, rank
from typedqax._relations import UNRESTRICTED
from typedqax._rule import Entry, Rule, Target
from typedqax._value import ImplicitValue

CLASSES: list[object] = [
    Any,
    Array,
    ImplicitValue,
    Zero,
    SmallZero,
    Zero | Lora,
    Array | Zero,
    Array | SmallZero,
]
OTHERS: list[object] = [Float[Zero, "..."], Shaped[Zero | Lora, "n"], Shaped[Array, ""]]


def rules_of(annotations: list[object], target: Target) -> list[Rule]:
    pairs = itertools.product(annotations, repeat=2)
    dense = [(Array, Array), (Array, Shaped[Array, ""]), (Shaped[Array, ""], Array)]
    return [rule(*pair, of=target) for pair in pairs if pair not in dense and pair[0] != pair[1]]


def exact(first: Entry, second: Entry) -> Relation | None:
    """The relation by the exact questions alone."""
    a, b, calls = first.signature, second.signature, first.calls
    if calls.shared(a, b) is None:
        return None
    narrower, wider = calls.outside(a, b) is None, calls.outside(b, a) is None
    if narrower:
        return Relation.EQUAL if wider else Relation.NARROWER
    return Relation.WIDER if wider else Relation.CROSSING


@pytest.mark.parametrize(
    ("target", "classes"),
    [
        pytest.param(DOT, CLASSES, id="dot_general"),
        pytest.param(MUL, CLASSES[1:6], id="mul"),
    ],
)
def test_what_classes_decide_is_what_the_relations_say(
    target: Target, classes: list[object]
) -> None:
    rules = rules_of(classes, target)
    comparisons = Comparisons(rules)
    seen = set()
    for first, second in itertools.combinations(rules, 2):
        found = comparisons.relation(first.entries[0], second.entries[0])
        assert found is exact(first.entries[0], second.entries[0]), (first, second)
        seen.add(found)
    assert seen >= {*Relation, None} - {Relation.EQUAL}


def test_what_classes_help_to_decide_is_what_the_relations_say() -> None:
    plain, others = rules_of(CLASSES[2:5], DOT), rules_of([*OTHERS, Any], DOT)
    comparisons = Comparisons([*plain, *others])
    for first, second in itertools.product(plain, others):
        assert comparisons.relation(first.entries[0], second.entries[0]) is exact(
            first.entries[0], second.entries[0]
        )


def test_what_has_been_compared_is_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [rule(Float[cls, "n"], Any, of=DOT) for cls in (Zero, SmallZero, Lora)]
    entries = [each.entries[0] for each in rules]
    known = rank("dot_general", entries)
    more = rule(ImplicitValue, Any, of=DOT).entries[0]
    asked: list[frozenset[Entry]] = []
    relation = Comparisons.relation

    def counted(self: Comparisons, first: Entry, second: Entry) -> Relation | None:
        asked.append(frozenset({first, second}))
        return relation(self, first, second)

    monkeypatch.setattr(Comparisons, "relation", counted)
    again = rank("dot_general", [*entries, more], [known])
    assert all(more in pair for pair in asked)
    assert again.relations == rank("dot_general", [*entries, more]).relations


def test_a_thousand_handlers_are_ranked_without_comparing_all_pairs() -> None:
    # Half a million pairs, a tenth of a millisecond each, would take a minute.
    classes = [type(f"Class{place}", (ImplicitValue,), {}) for place in range(1_000)]
    rules = [rule(Float[cls, "m n"], Float[Array, "n"], of=DOT) for cls in classes]
    start = time.thread_time()
    ranking = rank("dot_general", [each.entries[0] for each in rules])
    assert time.thread_time() - start < 5
    assert not ranking.relations
    assert len(ranking.entries) == 1_000


# --- the tables of the cases, which know no domain ------------------------------------------


def case_entry(case: Mapping[str, Any]) -> Entry:
    """A handler of a case."""
    returns = MAYBE if case["may_decline"] else Array
    read = Handler.of(made(Any, Any, name=case["name"], returns=returns), takes_first=False)
    handler = dataclasses.replace(read, signature=signature(**case["sig"]))
    target = Target("case", None, None, None)
    return Entry(Rule(handler, (target,), case["precedence"]), target, Calls(UNRESTRICTED))


def chain_of(ranking: Ranking, point: Any) -> list[str]:
    """The handlers that take a call, up to the first that never declines."""
    chain = []
    for entry in ranking.entries:
        if entry.signature.match(operands(point)) is not None:
            chain.append(entry.handler.name)
            if entry.handler.total:
                break
    return chain


@pytest.mark.parametrize("case", CASES["tables"], ids=lambda case: case["name"])
@pytest.mark.parametrize("turn", [1, -1], ids=["in order", "reversed"])
def test_a_table_of_the_cases_has_the_errors_and_chains_it_says(
    case: Mapping[str, Any], turn: int
) -> None:
    ranking = rank("case", [case_entry(each) for each in case["handlers"][::turn]])
    found = {
        ("ambiguous", frozenset({t.first.handler.name, t.second.handler.name}))
        for t in ranking.ties
    } | {("duplicate", frozenset({a.handler.name, b.handler.name})) for a, b in ranking.duplicates}
    assert found == {(e["kind"], frozenset({e["a"], e["b"]})) for e in case["errors"]}
    for expected in case["chains"]:
        assert chain_of(ranking, expected["point"]) == expected["chain"]
    for tie in ranking.ties:
        for entry in (tie.first, tie.second):
            assert entry.signature.match(tie.witness) is not None
