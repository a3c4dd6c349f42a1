"""The resolver's answers about random rows, compared with those of the brute force."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests import brute_force
from tests.brute_force import Point, Row
from typedqax._dims import parse_dims
from typedqax._relations import Point as Witness
from typedqax._relations import difference, overlap, uncovered_overlap
from typedqax._signature import ArrayPattern, Dense, Parameter, Signature

ONLY_DENSE = frozenset({Dense})


@dataclass(frozen=True)
class Kind:
    """One kind of random rows, and the points that the brute force looks at."""

    name: str
    arity: int
    longest_text: int
    sizes: tuple[int, ...]
    longest: int
    symbolic: bool = False
    broadcast: bool = True
    share: int = 1


KINDS = (
    Kind("two operands", 2, 2, (1, 2, 3), 3, share=3),
    Kind("two operands, two sizes", 2, 2, (1, 2), 3, share=5),
    Kind("two operands, plain", 2, 2, (1, 2), 3, broadcast=False, share=2),
    Kind("two operands, expressions", 2, 2, (1, 2, 3), 3, symbolic=True, share=2),
    Kind("one operand, size 0, expressions", 1, 3, (0, 1, 2, 3), 4, symbolic=True, share=4),
    Kind("two operands, long", 2, 2, (1, 2), 4, share=1),
    Kind("three operands", 3, 1, (1, 2), 2, share=2),
    Kind("three operands, expressions", 3, 2, (1, 2), 2, symbolic=True, share=1),
)


def signature(row: Row) -> Signature:
    """The signature that says nothing but the row."""
    return Signature.of(
        *(
            Parameter(f"x{i}", (ArrayPattern(ONLY_DENSE, dims=parse_dims(text)),))
            for i, text in enumerate(row)
        )
    )


@dataclass
class Report:
    """What was compared, and where the two differ."""

    pairs: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def compare(self, first: Row, second: Row, kind: Kind) -> None:
        """Overlap and inclusion, both ways, of one pair."""
        self.pairs += 1
        a, b = signature(first), signature(second)
        inside = [brute_force.points(row, kind.sizes, kind.longest) for row in (first, second)]
        self.judge("overlap", overlap(a, b), inside[0] & inside[1], [first, second], [])
        for x, y, row, other, points in (
            (a, b, first, second, inside[0] - inside[1]),
            (b, a, second, first, inside[1] - inside[0]),
        ):
            self.judge("difference", difference(x, (y,)), points, [row], [other])

    def compare_cover(self, meet: Sequence[Row], covers: Sequence[Row], kind: Kind) -> None:
        """The part of an overlap that several rows together leave uncovered."""
        self.pairs += 1
        sets = [brute_force.points(row, kind.sizes, kind.longest) for row in (*meet, *covers)]
        left = frozenset.intersection(*sets[: len(meet)]).difference(*sets[len(meet) :])
        found = uncovered_overlap(
            signature(meet[0]), signature(meet[-1]), [signature(row) for row in covers]
        )
        self.judge("uncovered", found, left, meet, covers)

    def judge(
        self,
        question: str,
        found: Witness | None,
        points: frozenset[Point] | set[Point],
        inside: Sequence[Row],
        outside: Sequence[Row],
    ) -> None:
        if found is None:
            self.answers[f"{question}: none"] += 1
            if points:
                self.wrong.append(f"{question} {inside} - {outside}: missed {min(points)}")
            return
        if not found.certain:
            self.answers[f"{question}: maybe"] += 1
            self.answers["maybe, yes" if points else "maybe, none seen"] += 1
            return
        self.answers[f"{question}: some"] += 1
        point = tuple(operand.shape for operand in found)
        if not all(brute_force.contains(row, point) for row in inside) or any(
            brute_force.contains(row, point) for row in outside
        ):
            self.wrong.append(f"{question} {inside} - {outside}: {point} is no example")


def run(seed: int, pairs: int, kinds: Sequence[Kind] = KINDS) -> Report:
    """So many random comparisons, one in four about covers."""
    rng, report = random.Random(seed), Report()
    weighted = [kind for kind in kinds for _ in range(kind.share)]
    for _ in range(pairs):
        kind = rng.choice(weighted)
        made = {"symbolic": kind.symbolic, "broadcast": kind.broadcast}
        first, second = brute_force.random_pair(rng.choice, kind.arity, kind.longest_text, **made)
        if rng.random() < 0.75:
            report.compare(first, second, kind)
        else:
            covers = [
                brute_force.mutated(rng.choice, rng.choice([first, second]), **made)
                for _ in range(rng.choice([1, 2, 3]))
            ]
            report.compare_cover(rng.choice([[first], [first, second]]), covers, kind)
    return report
