"""Relations: the cases, the brute force, the rank limits, and that the tests would notice."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import brute_force, resolver_oracle, whole_signatures
from tests.brute_force import Row
from tests.resolver_oracle import KINDS, Kind, Report
from tests.resolver_world import (
    CASES,
    LoraMatrix,
    LoraQuant,
    Structured,
    Zeros,
    operands,
    signature,
)
from typedqax import _shapes
from typedqax._dims import parse_dims
from typedqax._dtypes import dtype_set
from typedqax._relations import (
    Domain,
    Point,
    Universe,
    difference,
    equal,
    inhabited,
    is_subset,
    overlap,
    uncovered_overlap,
)
from typedqax._shapes import Region, regions
from typedqax._signature import Dense, Operand, Signature
from typedqax._value import ImplicitValue

ANYTHING = frozenset({Dense, ImplicitValue})
ELEMENTWISE = Domain.of_shapes(
    ("*s", "*s"), ("", "*s"), ("*s", ""), same_dtype=[(0, 1)], anything=ANYTHING
)
IMPLICIT = Domain()


# --- the cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES["pairs"], ids=lambda case: case["id"])
def test_pair_of_signatures_is_related_as_the_case_says(case: dict[str, Any]) -> None:
    a, b = signature(**case["a"]), signature(**case["b"])
    assert is_subset(a, b) is case["a_in_b"]
    assert is_subset(b, a) is case["b_in_a"]
    assert equal(a, b) is (case["a_in_b"] and case["b_in_a"])
    point = overlap(a, b)
    assert (point is not None) is case["overlap"]
    if point is not None:
        assert a.match(point)
        assert b.match(point)


@pytest.mark.parametrize("case", CASES["pairs"], ids=lambda case: case["id"])
def test_example_of_what_only_one_signature_accepts_is_accepted_by_that_one_alone(
    case: dict[str, Any],
) -> None:
    pair = signature(**case["a"]), signature(**case["b"])
    for mine, other in (pair, pair[::-1]):
        point = difference(mine, [other])
        if point is not None:
            assert mine.match(point)
            # A predicate that cannot be compared may hold for some values and not for others.
            assert other.match(point) is None or other.has_predicates


@pytest.mark.parametrize("case", CASES["pairs"], ids=lambda case: case["id"])
def test_example_in_the_case_is_what_the_case_says_it_is(case: dict[str, Any]) -> None:
    a, b = signature(**case["a"]), signature(**case["b"])
    if case["witness"]:
        assert a.match(operands(case["witness"]))
        assert b.match(operands(case["witness"]))
    for key, mine, other in (("a_not_b", a, b), ("b_not_a", b, a)):
        if case[key]:
            assert mine.match(operands(case[key]))
            assert other.match(operands(case[key])) is None or other.has_predicates


def errors_of(table: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The pairs that a table must refuse, by the definition and nothing else."""
    handlers = table["handlers"]
    signatures = [signature(**h["sig"]) for h in handlers]
    count = range(len(handlers))
    inside = [[is_subset(signatures[i], signatures[j]) for j in count] for i in count]

    def beats(i: int, j: int) -> bool:
        difference = handlers[i]["precedence"] - handlers[j]["precedence"]
        return difference > 0 or (difference == 0 and inside[i][j] and not inside[j][i])

    found = []
    for i in count:
        for j in range(i + 1, len(handlers)):
            names = handlers[i]["name"], handlers[j]["name"]
            if handlers[i]["precedence"] != handlers[j]["precedence"]:
                continue
            if inside[i][j] and inside[j][i]:
                found.append(("duplicate", *names))
            elif not inside[i][j] and not inside[j][i]:
                covers = [
                    signatures[k]
                    for k in count
                    if not handlers[k]["may_decline"] and (beats(k, i) or beats(k, j))
                ]
                if uncovered_overlap(signatures[i], signatures[j], covers) is not None:
                    found.append(("ambiguous", *names))
    return sorted(found)


@pytest.mark.parametrize("table", CASES["tables"], ids=lambda table: table["name"])
def test_table_has_the_errors_that_the_case_says(table: dict[str, Any]) -> None:
    assert errors_of(table) == sorted((e["kind"], e["a"], e["b"]) for e in table["errors"])


# --- the brute force ------------------------------------------------------------------------


def kind_id(kind: Kind) -> str:
    return kind.name


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_relation_of_two_rows_is_that_of_their_points(kind: Kind, data: st.DataObject) -> None:
    def choose(options: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(options))

    made = {"symbolic": kind.symbolic, "broadcast": kind.broadcast}
    first, second = brute_force.random_pair(choose, kind.arity, kind.longest_text, **made)
    report = Report()
    report.compare(first, second, kind)
    report.compare_cover([first, second], [brute_force.mutated(choose, first, **made)], kind)
    assert report.wrong == []


@pytest.mark.parametrize("kind", KINDS, ids=kind_id)
def test_no_random_row_disagrees_with_the_brute_force(kind: Kind) -> None:
    report = resolver_oracle.run(seed=17, pairs=120, kinds=[kind])
    assert report.wrong == []
    assert sum(n for answer, n in report.answers.items() if answer.endswith("some")) > 20
    assert sum(n for answer, n in report.answers.items() if answer.endswith("none")) > 20


def test_maybe_is_rare() -> None:
    report = resolver_oracle.run(seed=5, pairs=400, kinds=KINDS)
    answered = sum(n for answer, n in report.answers.items() if ":" in answer)
    maybe = sum(n for answer, n in report.answers.items() if answer.endswith(": maybe"))
    assert maybe < answered / 50


# Chosen before the library existed, by hand; each kept a mistake from being noticed once.
KNOWN_COVERS = [
    pytest.param([("#*b", "#*b")], [("#*b", "*b"), ("*b", "#*b")], False, id="one column each"),
    pytest.param(
        [("#*b", "#*b")],
        [("#*b", "*b"), ("*b", "#*b"), ("#*b", "#*b")],
        True,
        id="the same row covers",
    ),
    pytest.param([("...",)], [("",), ("_ ...",)], True, id="rank 0 or more"),
    pytest.param([("...",)], [("",), ("_",), ("_ _ _ ...",)], False, id="rank 2 is left"),
    pytest.param([("_",)], [("1",), ("2",), ("3",)], False, id="numbers never cover"),
    pytest.param(
        [("n ...", "n"), ("... n", "n")], [("n", "n"), ("n ... n", "n")], True, id="ranks 1, 2.."
    ),
    pytest.param([("n ...", "n"), ("... n", "n")], [("n", "n")], False, id="rank 2 on"),
    pytest.param(
        [("*a", "*b", "*b 5"), ("n _ *a _ 5", "n *b 5 _", "*a")], [], False, id="only from rank 8"
    ),
    pytest.param([("*b 3 5", "*b"), ("5 3 *b", "*b")], [], False, id="odd ranks"),
    pytest.param([("*b 3 5", "*b"), ("5 3 *b", "*b")], [("_ _ ...", "5 ...")], True, id="5 3 5"),
    pytest.param([("*b 3", "*b"), ("4 *b", "*b")], [], True, id="no rank"),
    pytest.param([("#n ... #n", "#2 ...")], [("... _", "2 ...")], False, id="1 in place of 2"),
    pytest.param([("n", "n+1"), ("n", "2*n")], [("1", "2")], True, id="n + 1 = 2 n"),
    pytest.param([("n m", "n*m"), ("n m", "0")], [("0 _", "_")], False, id="either factor is 0"),
    pytest.param(
        [("n m", "n*m"), ("n m", "0")], [("0 _", "0"), ("_ 0", "0")], True, id="both factors"
    ),
]


@pytest.mark.parametrize(("inside", "covers", "is_covered"), KNOWN_COVERS)
def test_rows_cover_others_together_or_not(
    inside: list[Row], covers: list[Row], is_covered: bool
) -> None:
    first, *rest = [resolver_oracle.signature(row) for row in inside]
    point = uncovered_overlap(
        first, rest[0] if rest else first, [resolver_oracle.signature(row) for row in covers]
    )
    assert (point is None) is is_covered
    if point is not None:
        shapes = tuple(operand.shape for operand in point)
        assert point.certain
        assert all(brute_force.contains(row, shapes) for row in inside)
        assert not any(brute_force.contains(row, shapes) for row in covers)


# --- the rank limits ------------------------------------------------------------------------


@pytest.fixture
def rank_slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    _shapes._regions.cache_clear()


def essence(found: Sequence[Region]) -> tuple[bool, set[int]]:
    return all(region.certain for region in found), {region.inside for region in found}


@pytest.mark.parametrize(
    ("arity", "broadcast", "count"),
    [
        pytest.param(1, False, 150, id="one operand"),
        pytest.param(2, False, 150, id="two operands"),
        pytest.param(3, False, 60, id="three operands"),
        pytest.param(4, False, 25, id="four operands"),
        pytest.param(2, True, 60, id="two operands, broadcast"),
    ],
)
def test_five_more_axes_change_nothing(
    arity: int, broadcast: bool, count: int, rank_slack: pytest.MonkeyPatch
) -> None:
    rng = random.Random(arity)
    for _ in range(count):
        rows = [
            tuple(
                map(
                    parse_dims,
                    brute_force.random_row(rng.choice, arity, 2, broadcast=broadcast),
                )
            )
            for _ in range(4)
        ]
        rank_slack.setattr(_shapes, "RANK_SLACK", 0)
        limited = regions(rows[:2], rows[2:])
        rank_slack.setattr(_shapes, "RANK_SLACK", 5)
        further = regions(rows[:2], rows[2:])
        if essence(limited)[0] and essence(further)[0]:
            assert essence(limited) == essence(further), [list(map(str, row)) for row in rows]


# --- the tests would notice -----------------------------------------------------------------


def disagreements() -> int:
    _shapes._regions.cache_clear()
    found = resolver_oracle.run(seed=23, pairs=250, kinds=KINDS[:5]).wrong
    _shapes._regions.cache_clear()
    return len(found)


def test_brute_force_notices_a_rank_limit_that_is_too_low(rank_slack: pytest.MonkeyPatch) -> None:
    rank_slack.setattr(_shapes, "RANK_SLACK", -1)
    assert disagreements() > 0


def test_brute_force_notices_broadcast_axes_taken_as_plain(rank_slack: pytest.MonkeyPatch) -> None:
    original = _shapes._Problem.instances

    def without_ones(problem: Any, *args: Any) -> Any:
        for split in problem.splits:
            if split.size is None and not problem.classes.join(split.axis, split.target):
                return iter(())
        problem.splits = [split for split in problem.splits if split.size is not None]
        return original(problem, *args)

    rank_slack.setattr(_shapes._Problem, "instances", without_ones)
    assert disagreements() > 0


def test_brute_force_notices_that_axes_of_the_meet_are_not_unified(
    rank_slack: pytest.MonkeyPatch,
) -> None:
    rank_slack.setattr(_shapes._Classes, "fix", lambda classes, node, size: True)
    assert disagreements() > 0


# --- classes and dtypes ---------------------------------------------------------------------


def test_example_of_an_overlap_of_classes_is_their_common_subclass() -> None:
    point = overlap(signature(["LoraMatrix"]), signature(["QuantMatrix"]))
    assert point is not None
    assert point[0].cls is LoraQuant


def test_new_subclass_with_one_base_changes_no_answer() -> None:
    both = signature(["Zeros | Eye"])
    assert not is_subset(signature(["Structured"]), both)
    assert overlap(signature(["Zeros"]), signature(["Eye"])) is None

    class Diagonal(Structured): ...

    class SmallZeros(Zeros): ...

    assert not is_subset(signature(["Structured"]), both)
    assert overlap(signature(["Zeros"]), signature(["Eye"])) is None
    assert signature(["Zeros"]).match([Operand(SmallZeros, "float32", ())])
    assert not signature(["Zeros"]).match([Operand(Diagonal, "float32", ())])


def test_new_class_with_two_bases_is_a_new_point() -> None:
    zeros, lora = signature(["Zeros"]), signature(["LoraMatrix"])
    assert overlap(zeros, lora) is None

    class ZeroLora(Zeros, LoraMatrix): ...

    point = overlap(zeros, lora)
    assert point is not None
    assert point[0].cls is ZeroLora
    del point, ZeroLora
    gc.collect()
    assert overlap(zeros, lora) is None


def test_universe_tells_apart_what_signatures_mention() -> None:
    universe = Universe.of(signature(["LoraMatrix"]), signature(["QuantMatrix"]))
    assert set(universe.classes) >= {Dense, LoraMatrix, LoraQuant}
    assert universe.bit(LoraQuant) & universe.mask(frozenset({LoraMatrix}))
    assert not universe.bit(Dense) & universe.mask(frozenset({LoraMatrix}))


def test_dtypes_cover_only_together() -> None:
    real, inexact = signature(["Real[Array, '...']"]), signature(["Inexact[Array, '...']"])
    assert difference(signature(["Num[Array, '...']"]), [real, inexact]) is None
    left = difference(signature(["Shaped[Array, '...']"]), [real, inexact])
    assert left is not None
    assert left[0].dtype == "bool"


def test_dtype_that_nobody_knows_is_in_shaped_alone() -> None:
    operand = Operand(Dense, "float7_e9", ())
    assert signature(["Shaped[Array, '']"]).match([operand])
    assert not signature(["Num[Array, '']"]).match([operand])


# --- any number of operands -----------------------------------------------------------------


def test_as_many_operands_are_looked_at_as_there_are_covers() -> None:
    everything = signature([], vararg="Float[Array, '_']")
    without = [signature([], vararg=f"Float[Array, '{n}']") for n in (2, 3)]
    point = difference(everything, without)
    assert point is not None
    kinds = [
        signature([], vararg="Num[Array, '...']"),
        signature([], vararg="Real[Array, '...']"),
        signature([], vararg="Complex[Array, '...']"),
    ]
    assert difference(signature([], vararg="Inexact[Array, '...']"), kinds) is None
    mixed = difference(signature([], vararg="Inexact[Array, '...']"), kinds[1:])
    assert mixed is not None
    assert len(mixed) == 2


# --- domains --------------------------------------------------------------------------------


def test_domain_leaves_out_calls_that_are_all_dense() -> None:
    a = signature(["Float[Array, 'n m']", "Float[Array, 'm']"])
    b = signature(["Float[Array, 'n m']", "Float[Array, 'n']"])
    assert overlap(a, b) is not None
    assert overlap(a, b, IMPLICIT) is None
    assert inhabited(a, IMPLICIT) is None


def test_domain_leaves_out_shapes_that_the_primitive_refuses() -> None:
    a, b = signature(["Zeros", "Any"]), signature(["Any", "Eye"])
    anywhere, inside = overlap(a, b), overlap(a, b, ELEMENTWISE)
    assert anywhere is not None
    assert inside is not None
    assert inside[0].dtype == inside[1].dtype
    assert inside[0].shape == inside[1].shape or () in (inside[0].shape, inside[1].shape)
    two, three = signature(["Float[Zeros, '2']", "Any"]), signature(["Any", "Float[Eye, '3']"])
    assert overlap(two, three) is not None
    assert overlap(two, three, ELEMENTWISE) is None


def test_domain_with_one_dtype_leaves_out_mixed_ones() -> None:
    a, b = signature(["Float[Zeros, '...']", "Any"]), signature(["Any", "Int[Eye, '...']"])
    assert overlap(a, b) is not None
    assert overlap(a, b, ELEMENTWISE) is None


def test_domain_makes_a_signature_a_subset_where_the_rest_cannot_happen() -> None:
    narrow = signature(["Float[Zeros, 'n m']", "Float[Array, 'n m']"])
    wide = signature(["Zeros", "Any"])
    squares = signature(["Float[Zeros, 'n m']", "Float[Array, 'n k']"])
    assert is_subset(narrow, wide, ELEMENTWISE)
    assert not is_subset(squares, narrow)
    assert is_subset(squares, narrow, ELEMENTWISE)


def test_domain_of_any_number_of_operands_with_one_dtype() -> None:
    domain = Domain(all_same=True)
    mixed = signature(["Float[Zeros, '...']"], vararg="Int[Array, '...']")
    point = inhabited(mixed, domain)
    assert point is not None
    assert len(point) == 1
    assert inhabited(signature(["Float[Zeros, '_']", "Int[Array, '_']"]), domain) is None


def test_domain_with_dtypes_an_operation_refuses() -> None:
    floats = dtype_set(["float32"])
    domain = Domain.of_shapes(("*s", "*s"), dtypes=[floats, floats], anything=ANYTHING)
    assert inhabited(signature(["Int[Zeros, '...']", "Any"]), domain) is None


# --- laws -----------------------------------------------------------------------------------


def realistic() -> list[Signature]:
    rows = [
        ["Zeros", "Any"],
        ["Any", "Zeros"],
        ["Zeros", "Zeros"],
        ["Float[Array, '*b m']", "Float[LoraMatrix, 'm n']"],
        ["Float[Array, 'b m']", "Float[LoraMatrix, 'm m']"],
        ["Float[Array, '#*b']", "Float[Zeros, '#*b']"],
        ["Float[Array, '*b']", "Float[Zeros, '*b']"],
        ["Num[ImplicitArray, '...']", "Float32[Array, '']"],
        ["Structured | LoraMatrix", "ImplicitArray"],
    ]
    return [signature(row) for row in rows]


def test_subset_is_reflexive_and_transitive_and_agrees_with_overlap() -> None:
    every = realistic()
    for a in every:
        assert equal(a, a)
        for b in every:
            assert (overlap(a, b) is None) == (overlap(b, a) is None)
            if is_subset(a, b):
                assert overlap(a, b) is not None
                assert all(is_subset(a, c) for c in every if is_subset(b, c))


def test_mirror_of_a_mirror_is_the_signature() -> None:
    for a in realistic():
        assert equal(a.mirrored().mirrored(), a)
        assert is_subset(a, a.commutative())
        assert is_subset(a.mirrored(), a.commutative())


def test_point_prints_as_operands() -> None:
    assert str(Point([Operand(Dense, "float32", (2, 3)), Operand(LoraMatrix, "bfloat16", ())])) == (
        "(Array f32[2,3], LoraMatrix bf16[])"
    )


def test_more_covers_with_star_parameters_than_are_looked_at_leave_a_doubt() -> None:
    everything = signature([], vararg="Float[Array, '_']")
    without = [signature([], vararg=f"Float[Array, 'n {n}']") for n in range(7)]
    point = difference(signature(["Zeros"], vararg="Zeros"), without)
    assert point is not None
    point = difference(everything, [*without, everything])
    assert point is None


# --- whole signatures -----------------------------------------------------------------------

MOST_OPERANDS = 2


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_relation_of_whole_signatures_is_that_of_their_points(data: st.DataObject) -> None:
    def choose(options: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(options))

    compare_whole_signatures(choose)


def test_no_random_signature_disagrees_with_its_points() -> None:
    rng = random.Random(29)
    for _ in range(400):
        compare_whole_signatures(rng.choice)


def compare_whole_signatures(choose: Any) -> None:
    first = whole_signatures.random_signature(choose)
    second = choose([whole_signatures.changed, None])
    second = second(choose, first) if second else whole_signatures.random_signature(choose)
    cover = whole_signatures.changed(choose, choose([first, second]))
    a, b, c = first.signature(), second.signature(), cover.signature()
    in_a, in_b, in_c = (drawn.points(MOST_OPERANDS) for drawn in (first, second, cover))
    for domain, accepts in (
        (None, lambda point: True),
        (Domain(), some_implicit),
        (
            Domain(all_same=True),
            lambda point: some_implicit(point) and len({x.dtype for x in point}) == 1,
        ),
    ):
        questions = [
            (overlap(a, b, domain), in_a & in_b, [a, b], []),
            (difference(a, [b], domain), in_a - in_b, [a], [b]),
            (difference(a, [b, c], domain), in_a - in_b - in_c, [a], [b, c]),
            (uncovered_overlap(a, b, [c], domain), (in_a & in_b) - in_c, [a, b], [c]),
        ]
        for point, points, inside, outside in questions:
            some = next(filter(accepts, points), None)
            if point is None:
                assert some is None, (list(map(str, inside)), list(map(str, outside)))
            elif point.certain:
                assert all(s.match(point) for s in inside)
                assert not any(s.match(point) for s in outside)
                assert accepts(point)
                seen = all(
                    x.cls in whole_signatures.CLASSES
                    and x.dtype in whole_signatures.DTYPES
                    and len(x.shape) <= whole_signatures.LONGEST
                    and set(x.shape) <= set(whole_signatures.SIZES)
                    for x in point
                )
                assert some is not None or not seen or len(point) > MOST_OPERANDS


def some_implicit(point: Sequence[Operand]) -> bool:
    return any(operand.cls is not Dense for operand in point)


def test_expression_that_cannot_be_solved_is_a_doubtful_example() -> None:
    a = resolver_oracle.signature(("n m", "n//(m-2)", "n%(m-2)"))
    b = resolver_oracle.signature(("n m", "n*m+11", "n*m*m+7"))
    point = overlap(a, b)
    assert point is not None
    assert not point.certain
    assert not is_subset(a, b)
