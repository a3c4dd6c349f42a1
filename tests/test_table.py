"""Tables are sealed whole or refused whole, whatever the order they come in."""

# What these handlers would compute plays no part here.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import copy
import functools
import gc
import itertools
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from beartype.vale import Is
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array
from jaxtyping import Float, Float32, Int, Num, Shaped

from tests import brute_force
from tests.handler_kit import (
    DOT,
    MAYBE,
    NEG,
    Infinity,
    Lora,
    SmallZero,
    Zero,
    chain,
    infinite,
    made,
    names_of,
    nothing,
    operand,
    refused,
    rule,
    undefined,
)
from typedqax import _ranking
from typedqax._declined import Declined
from typedqax._errors import (
    AmbiguityError,
    DuplicateHandlerError,
    RefusedTableError,
    TypedQaxError,
)
from typedqax._relations import is_subset
from typedqax._rule import Entry, Rule, Target
from typedqax._signature import Dense, Operand
from typedqax._table import HandlerTable
from typedqax._value import ImplicitValue
from typedqax.arrays import LORA

pytestmark = pytest.mark.usefixtures("nothing_else_installed")


# --- infinity times zero --------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1])
def test_infinity_times_zero_is_refused_when_it_is_declared(order: int) -> None:
    error = refused(*[infinite(), nothing()][:: 1 if order else -1])
    assert isinstance(error, AmbiguityError)
    assert names_of(error) == {frozenset({"infinite", "nothing"})}
    assert [each.split()[0] for each in error.pairs[0].witness.split("(")[1].split(",")] == [
        "Infinity",
        "Zero",
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_third_handler_settles_infinity_times_zero_in_any_order(order: Sequence[int]) -> None:
    rules = [infinite(), nothing(), undefined()]
    table = HandlerTable("settled", *(rules[place] for place in order))
    assert chain(table, "mul", operand(Infinity), operand(Zero))[0] == "undefined"
    assert chain(table, "mul", operand(Infinity), operand()) == ["infinite"]


@pytest.mark.parametrize("order", [0, 1])
def test_precedence_settles_infinity_times_zero_in_any_order(order: int) -> None:
    rules = [infinite(), nothing(precedence=1)]
    table = HandlerTable("settled", *rules[:: 1 if order else -1])
    assert chain(table, "mul", operand(Infinity), operand(Zero)) == ["nothing", "infinite"]


def test_a_third_handler_that_may_decline_settles_nothing() -> None:
    error = refused(infinite(), nothing(), undefined(returns=Array | Declined))
    assert names_of(error) == {frozenset({"infinite", "nothing"})}


def test_several_handlers_together_may_settle_an_ambiguity() -> None:
    narrow = [
        rule(Float[Infinity, "..."], Zero, name="floats"),
        rule(Shaped[Infinity, ""], Zero, name="scalars"),
        rule(Shaped[Infinity, "_ ..."], Zero, precedence=0, name="others"),
    ]
    assert refused(infinite(), nothing(), *narrow[:2]).pairs
    assert names_of(refused(infinite(), nothing(), *narrow)) == {
        frozenset({"floats", "others"})
    } | {frozenset({"floats", "scalars"})}
    assert HandlerTable("settled", infinite(), nothing(), *narrow[1:])


# --- duplicates and replacing ---------------------------------------------------------------


def test_the_same_operands_twice_are_refused() -> None:
    error = refused(rule(Zero, Any, name="first"), rule(Zero, Any, name="second"))
    assert type(error) is DuplicateHandlerError
    text = str(error)
    assert "take exactly the same operands" in text
    assert "(1) first(" in text
    assert "ops.mul.to(second, replace=True)" in text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Shaped[Zero, "..."], Zero, id="any shape"),
        pytest.param(Float[Zero, "n m"], Float[Zero, "rows cols"], id="other names"),
        pytest.param(Zero | Lora, Lora | Zero, id="union in another order"),
        pytest.param(Float[Zero, "*b n"], Float[Zero, "n *b"], id="the section elsewhere"),
    ],
)
def test_the_same_operands_in_other_words_are_refused(first: object, second: object) -> None:
    error = refused(rule(first, of=NEG, name="first"), rule(second, of=NEG, name="second"))
    assert type(error) is DuplicateHandlerError


def test_operands_that_only_calls_without_implicit_ones_tell_apart_are_the_same() -> None:
    error = refused(
        rule(Any, Array, of=DOT, name="first"), rule(ImplicitValue, Array, of=DOT, name="second")
    )
    assert type(error) is DuplicateHandlerError


def test_another_precedence_is_no_duplicate() -> None:
    table = HandlerTable(
        "two", rule(Zero, name="low", of=NEG), rule(Zero, name="high", of=NEG, precedence=1)
    )
    assert chain(table, "neg", operand(Zero)) == ["high", "low"]


def test_replace_takes_the_place_of_the_same_operands() -> None:
    old, new = rule(Zero, of=NEG, name="old"), rule(Zero, of=NEG, name="new", replace=True)
    for parts in ([old, new], [new, old], [HandlerTable("base", old), new]):
        assert chain(HandlerTable("patched", *parts), "neg", operand(Zero)) == ["new"]


def test_a_table_in_which_something_was_replaced_composes() -> None:
    old, new = rule(Zero, of=NEG, name="old"), rule(Zero, of=NEG, name="new", replace=True)
    base = HandlerTable("base", old)
    patched = HandlerTable("patched", base, new)
    assert chain(HandlerTable("all", patched), "neg", operand(Zero)) == ["new"]
    assert chain(HandlerTable("all", patched, base), "neg", operand(Zero)) == ["new"]
    newer = rule(Zero, of=NEG, name="newer", replace=True)
    assert chain(HandlerTable("all", patched, newer), "neg", operand(Zero)) == ["newer"]


def test_replace_with_nothing_to_replace_is_refused() -> None:
    error = refused(rule(Zero, of=NEG, name="new", replace=True), rule(Lora, of=NEG, name="other"))
    assert type(error) is DuplicateHandlerError
    assert "replace=True found no handler of precedence 0" in str(error)


# --- composition ----------------------------------------------------------------------------


def test_a_table_composed_of_tables_is_checked_on_the_union() -> None:
    with pytest.raises(AmbiguityError):
        HandlerTable("all", HandlerTable("a", infinite()), HandlerTable("b", nothing()))


def test_composition_does_not_depend_on_the_order() -> None:
    parts: list[Rule | HandlerTable] = [
        HandlerTable("a", infinite()),
        HandlerTable("b", nothing()),
        undefined(),
    ]
    for order in itertools.permutations(parts):
        table = HandlerTable("all", *order)
        assert chain(table, "mul", operand(Infinity), operand(Zero))[0] == "undefined"


def test_a_rule_that_comes_twice_is_there_once() -> None:
    one = infinite()
    assert len(HandlerTable("all", one, HandlerTable("a", one), one)) == 1


def test_a_table_never_changes() -> None:
    table = HandlerTable("fixed", infinite())
    with pytest.raises(AttributeError, match="never changes"):
        table.name = "other"
    assert copy.deepcopy(table) is table
    assert not hasattr(table, "__dict__")


def test_only_rules_and_tables_make_a_table() -> None:
    with pytest.raises(TypedQaxError, match=r"ops.<primitive>.to\(handler\)"):
        HandlerTable("wrong", made(Zero))  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypedQaxError, match="its name, a string"):
        HandlerTable(infinite())  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_rules_in_a_container_are_to_be_unpacked(kind: Any) -> None:
    text = rf"got a {kind.__name__} of 1\. Unpack it: HandlerTable\('t', \*rules\)$"
    with pytest.raises(TypedQaxError, match=text):
        HandlerTable("t", kind([infinite()]))


def test_a_dropped_table_lets_its_classes_go() -> None:
    def make() -> weakref.ref[type]:
        class Local(ImplicitValue): ...

        table = HandlerTable(
            "local", rule(Local, Any, name="local"), rule(Any, Lora, name="other", precedence=1)
        )
        assert chain(table, "mul", operand(Local), operand()) == ["local"]
        assert chain(None, "mul", operand(Local), operand(), isolated=False) == []
        return weakref.ref(Local)

    gone = make()
    gc.collect()
    assert gone() is None


# --- the order ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        pytest.param(SmallZero, Zero, id="subclass"),
        pytest.param(Zero, ImplicitValue, id="any implicit"),
        pytest.param(Float[Zero, "n"], Zero, id="shape"),
        pytest.param(Float32[Zero, "..."], Float[Zero, "..."], id="dtype"),
        pytest.param(Float[Zero, "n n"], Float[Zero, "n m"], id="square"),
        pytest.param(Float[Zero, "n 3"], Float[Zero, "n m"], id="size"),
        pytest.param(Float[Zero, "a b n"], Float[Zero, "*b n"], id="rank"),
        pytest.param(Annotated[Zero, Is[lambda value: True]], Zero, id="validator"),
    ],
)
def test_what_accepts_less_comes_first(narrow: object, wide: object) -> None:
    for order in itertools.permutations(
        [rule(narrow, of=NEG, name="narrow"), rule(wide, of=NEG, name="wide")]
    ):
        ranking = HandlerTable("ordered", *order).rankings["neg"]
        assert [entry.handler.name for entry in ranking.entries] == ["narrow", "wide"]
        assert ranking.is_beaten(ranking.entries[1], ranking.entries[0])


def test_precedence_comes_before_what_is_more_specific() -> None:
    table = HandlerTable(
        "ordered",
        rule(SmallZero, of=NEG, name="narrow"),
        rule(Zero, of=NEG, name="middle", precedence=1),
        rule(ImplicitValue, of=NEG, name="wide", precedence=1),
    )
    assert chain(table, "neg", operand(SmallZero)) == ["middle", "wide", "narrow"]


def test_commutative_is_one_handler_for_both_orders() -> None:
    table = HandlerTable("both", rule(Zero, Any, name="zero", commutative=True))
    for operands in ([operand(Zero), operand()], [operand(), operand(Zero)], [operand(Zero)] * 2):
        assert chain(table, "mul", *operands) == ["zero"]


def test_two_commutative_handlers_are_settled_by_a_third() -> None:
    zero = rule(Zero, Any, name="zero", commutative=True)
    infinity = rule(Infinity, Any, name="infinity", commutative=True)
    assert refused(zero, infinity).pairs
    both = rule(Zero, Infinity, name="both", commutative=True)
    table = HandlerTable("settled", zero, infinity, both)
    assert chain(table, "mul", operand(Infinity), operand(Zero))[0] == "both"


# --- domains --------------------------------------------------------------------------------


def test_handlers_that_share_only_impossible_calls_are_not_ambiguous() -> None:
    left, right = (Float[Lora, "3"], Any), (Any, Float[Array, "4"])
    assert refused(rule(*left, of=DOT, name="left"), rule(*right, of=DOT, name="right")).pairs
    assert HandlerTable("fine", rule(*left, name="left"), rule(*right, name="right"))


def test_dtypes_that_the_primitive_does_not_mix_are_not_ambiguous() -> None:
    left, right = (Float32[Lora, "..."], Any), (Any, Int[Zero, "..."])
    assert refused(rule(*left, of=DOT, name="left"), rule(*right, of=DOT, name="right")).pairs
    assert HandlerTable("fine", rule(*left, name="left"), rule(*right, name="right"))


# --- whole tables against pointwise brute force ---------------------------------------------

SIZES, LONGEST = (1, 2, 3, 4), 2
SHAPES = [s for rank in range(LONGEST + 1) for s in itertools.product(SIZES, repeat=rank)]
# ImplicitValue stands for every other implicit class, bool for every other dtype.
CLASSES = [Dense, Zero, SmallZero, Lora, ImplicitValue]
DTYPES = ["float32", "int32", "bool"]
FLOATS, NUMBERS, EVERY = DTYPES[:1], DTYPES[:2], DTYPES


class Kind:
    """An annotation, and by hand what it accepts: classes, dtypes, and the text of its axes."""

    def __init__(
        self, annotation: object, classes: Sequence[type], dtypes: Sequence[str], axes: str
    ) -> None:
        self.annotation, self.classes, self.dtypes, self.axes = annotation, classes, dtypes, axes

    def __repr__(self) -> str:
        return str(self.annotation)


ZEROS = [Zero, SmallZero]
IMPLICIT = CLASSES[1:]
KINDS = [
    Kind(Any, CLASSES, EVERY, "..."),
    Kind(ImplicitValue, IMPLICIT, EVERY, "..."),
    Kind(Array, [Dense], EVERY, "..."),
    Kind(Zero, ZEROS, EVERY, "..."),
    Kind(SmallZero, [SmallZero], EVERY, "..."),
    Kind(Zero | Lora, [*ZEROS, Lora], EVERY, "..."),
    Kind(Float[Zero, "..."], ZEROS, FLOATS, "..."),
    Kind(Float[Zero, "n"], ZEROS, FLOATS, "n"),
    Kind(Num[Zero, "n m"], ZEROS, NUMBERS, "n m"),
    Kind(Num[Zero, "n n"], ZEROS, NUMBERS, "n n"),
    Kind(Num[Zero, "n 3"], ZEROS, NUMBERS, "n 3"),
    Kind(Float[Array, "n"], [Dense], FLOATS, "n"),
    Kind(Num[Array, "m"], [Dense], NUMBERS, "m"),
    Kind(Float[Array, ""], [Dense], FLOATS, ""),
    Kind(Shaped[Lora, "*b n"], [Lora], EVERY, "*b n"),
]


def box(kind: Kind) -> tuple[Any, Any]:
    return (
        np.array([cls in kind.classes for cls in CLASSES]),
        np.array([dtype in kind.dtypes for dtype in DTYPES]),
    )


PLACE = {shape: place for place, shape in enumerate(SHAPES)}
ALL_SHAPES = len(SHAPES)


@functools.cache
def accepted_shapes(first: str, second: str) -> Any:
    found = np.zeros((ALL_SHAPES, ALL_SHAPES), bool)
    for left, right in brute_force.points((first, second), SIZES, LONGEST):
        found[PLACE[left], PLACE[right]] = True
    return found


def accepted_points(first: Kind, second: Kind) -> Any:
    """By class, dtype and shape of both operands: whether a handler accepts them."""
    (c0, d0), (c1, d1) = box(first), box(second)
    shapes = accepted_shapes(first.axes, second.axes)
    implicit = np.ones((len(CLASSES), len(CLASSES)), bool)
    implicit[0, 0] = False  # CLASSES[0] is Dense: a call has an implicit operand
    classes = np.outer(c0, c1) & implicit
    return (
        classes[:, :, None, None, None, None]
        & np.outer(d0, d1)[None, None, :, :, None, None]
        & shapes[None, None, None, None]
    )


class Made:
    """A handler of a random table, with the points that it accepts."""

    def __init__(
        self, place: int, first: Kind, second: Kind, precedence: int, declines: bool, both: bool
    ) -> None:
        self.name, self.precedence, self.declines = f"h{place}", precedence, declines
        self.points = accepted_points(first, second)
        if both:
            self.points = self.points | self.points.transpose(1, 0, 3, 2, 5, 4)
        self.kinds, self.both = (first, second), both

    def rule(self) -> Rule:
        first, second = self.kinds
        return rule(
            first.annotation,
            second.annotation,
            of=Target("and", None, (), None) if self.both else DOT,
            name=self.name,
            returns=MAYBE if self.declines else Array,
            precedence=self.precedence,
            commutative=self.both,
        )

    def beats(self, other: Made) -> bool:
        if self.precedence != other.precedence:
            return self.precedence > other.precedence
        return self.within(other) and not other.within(self)

    def within(self, other: Made) -> bool:
        return not (self.points & ~other.points).any()


def expected_errors(handlers: Sequence[Made]) -> tuple[set[frozenset[str]], set[frozenset[str]]]:
    """By brute force, the pairs that are ambiguous and those that are the same."""
    ambiguous, same = set(), set()
    for a, b in itertools.combinations(handlers, 2):
        if a.precedence != b.precedence:
            continue
        names = frozenset({a.name, b.name})
        if a.within(b) and b.within(a):
            same.add(names)
        elif not a.within(b) and not b.within(a):
            left = a.points & b.points
            for c in handlers:
                if not c.declines and (c.beats(a) or c.beats(b)):
                    left = left & ~c.points
            if left.any():
                ambiguous.add(names)
    return ambiguous, same


def expected_chain(handlers: Sequence[Made], matching: Sequence[bool]) -> list[str]:
    """By brute force, who runs when each in turn declines; up to the first that never does."""
    rest = [h for h, matches in zip(handlers, matching, strict=True) if matches]
    order = []
    while rest:
        best = [h for h in rest if not any(other.beats(h) for other in rest)]
        assert len(best) == 1
        order.append(best[0].name)
        rest.remove(best[0])
        if not best[0].declines:
            break
    return order


def distinct_calls(handlers: Sequence[Made]) -> Iterator[tuple[list[bool], list[Operand]]]:
    """One call for each set of handlers that some call matches."""
    stacked = np.stack([h.points for h in handlers]).reshape(len(handlers), -1)
    weights = 1 << np.arange(len(handlers))
    _, first = np.unique(weights @ stacked, return_index=True)
    extent = handlers[0].points.shape
    for flat in first:
        c0, c1, d0, d1, s0, s1 = np.unravel_index(flat, extent)
        if c0 == 0 and c1 == 0:
            continue
        yield (
            [bool(x) for x in stacked[:, flat]],
            [
                Operand(CLASSES[c0], DTYPES[d0], SHAPES[s0]),
                Operand(CLASSES[c1], DTYPES[d1], SHAPES[s1]),
            ],
        )


@st.composite
def random_handlers(draw: st.DrawFn, *, both: bool) -> list[Made]:
    kinds = st.sampled_from(KINDS)
    found: list[Made] = []
    for place in range(draw(st.integers(2, 6))):
        first, second = draw(kinds), draw(kinds)
        precedence = draw(st.sampled_from([0, 0, 0, 1]))
        handler = Made(place, first, second, precedence, draw(st.booleans()), both)
        if handler.points.any():
            found.append(handler)
    return found


def sealed(handlers: Sequence[Made]) -> tuple[HandlerTable | None, RefusedTableError | None]:
    try:
        return HandlerTable("random", *(handler.rule() for handler in handlers)), None
    except RefusedTableError as error:
        return None, error


def judge(handlers: Sequence[Made], shuffled: Sequence[Made], primitive: str) -> bool:
    """Compare what the library says of a table with brute force; whether it was accepted."""
    ambiguous, same = expected_errors(handlers)
    table, error = sealed(shuffled)
    assert (names_of(error) if error else set()) == ambiguous
    duplicates = error.duplicates if error else ()
    assert {frozenset({each.first.name, each.second.name}) for each in duplicates} == same
    if table is None:
        return False
    for matching, operands in distinct_calls(handlers):
        expected = expected_chain(handlers, matching)
        found = chain(table, primitive, *operands)
        assert found[: len(expected)] == expected
        assert set(found) == {h.name for h, m in zip(handlers, matching, strict=True) if m}
    return True


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_table_has_the_errors_and_the_chains_that_brute_force_finds(data: st.DataObject) -> None:
    handlers = data.draw(random_handlers(both=False))
    if handlers:
        judge(handlers, data.draw(st.permutations(handlers)), "dot_general")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_table_of_commutative_handlers_is_as_brute_force_finds(data: st.DataObject) -> None:
    handlers = data.draw(random_handlers(both=True))
    # `and` has a domain of its own, which the brute force does not know: only what is decided
    # by classes is drawn.
    handlers = [h for h in handlers if all(kind.axes == "..." for kind in h.kinds)]
    handlers = [h for h in handlers if all(kind.dtypes == EVERY for kind in h.kinds)]
    if handlers:
        judge(handlers, data.draw(st.permutations(handlers)), "and")


def test_the_brute_force_catches_precedence_that_only_breaks_ties(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def specific_first(entries: Sequence[Entry], relations: object) -> list[Entry]:
        def narrower_than(entry: Entry) -> int:
            return sum(
                is_subset(entry.signature, other.signature)
                for other in entries
                if other is not entry
            )

        return sorted(entries, key=lambda entry: (-narrower_than(entry), -entry.precedence))

    narrow, wide = next(
        (a, b)
        for a, b in itertools.permutations(
            [
                Made(place, kind, kind, place, declines=False, both=False)
                for kind in KINDS
                for place in (0, 1)
            ],
            2,
        )
        if (a.name, b.name) == ("h0", "h1")
        and a.points.any()
        and (a.points <= b.points).all()
        and (a.points != b.points).any()
    )
    assert judge([narrow, wide], [wide, narrow], "dot_general")
    monkeypatch.setattr(_ranking, "_in_order", specific_first)
    with pytest.raises(AssertionError):
        judge([narrow, wide], [wide, narrow], "dot_general")


def test_the_brute_force_sees_both_outcomes() -> None:
    any_, zero, small, lora = KINDS[0], KINDS[3], KINDS[4], KINDS[14]
    crossing = [Made(0, zero, any_, 0, False, False), Made(1, any_, lora, 0, False, False)]
    assert expected_errors(crossing)[0] == {frozenset({"h0", "h1"})}
    settled = [
        *crossing,
        Made(2, zero, lora, 0, False, False),
        Made(3, small, any_, 1, True, False),
    ]
    assert not any(expected_errors(settled))
    assert judge(settled, settled[::-1], "dot_general")
    assert not judge(crossing, crossing, "dot_general")


def test_a_table_is_from_where_it_is_made_be_that_in_typedqax() -> None:
    assert Path(LORA.origin.place.file).name == "lora.py"
    table = HandlerTable("here")
    assert table.origin.place.file == __file__
