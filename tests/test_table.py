"""Tables are sealed whole or refused whole, and say why, whatever the order they come in."""

# What these handlers would compute plays no part here.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import itertools
import pickle
import sys
import types
import weakref
from collections.abc import Iterator, Sequence
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
    ADD_ANY,
    ANY,
    DOT,
    EXP,
    MAYBE,
    MUL,
    NEG,
    SUB,
    Infinity,
    Lora,
    SmallZero,
    Zero,
    chain,
    made,
    operand,
    rule,
)
from typedqax import _ranking
from typedqax._declined import Declined
from typedqax._errors import (
    AmbiguityError,
    DuplicateHandlerError,
    RefusedTableError,
    TypedQaxError,
)
from typedqax._findings import findings
from typedqax._installed import (
    declaring,
    install,
    install_rule,
    installed,
    installed_now,
    installed_table,
    installed_version,
    nothing_installed,
    recheck_class,
    uninstall,
)
from typedqax._relations import is_subset
from typedqax._rule import Entry, Rule, Target
from typedqax._signature import Dense, Operand
from typedqax._table import HandlerTable
from typedqax._value import ImplicitValue


@pytest.fixture(autouse=True)
def nothing_stays_installed() -> Iterator[None]:
    with nothing_installed():
        yield


def fails(*parts: HandlerTable) -> None:
    with declaring():
        for part in parts:
            install(part)
        raise KeyError


def refused(*parts: Rule | HandlerTable) -> RefusedTableError:
    with pytest.raises(RefusedTableError) as caught:
        HandlerTable("tested", *parts)
    return caught.value


def names_of(error: RefusedTableError) -> set[frozenset[str]]:
    return {frozenset({pair.first.name, pair.second.name}) for pair in error.pairs}


# --- infinity times zero --------------------------------------------------------------------


def infinite(**how: Any) -> Rule:
    return rule(Infinity, Any, name="infinite", **how)


def nothing(**how: Any) -> Rule:
    return rule(Any, Zero, name="nothing", **how)


def undefined(**how: Any) -> Rule:
    return rule(Infinity, Zero, name="undefined", **how)


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


# --- the text of an error -------------------------------------------------------------------


def test_an_ambiguity_is_told_with_places_an_example_and_the_handler_to_add() -> None:
    first = rule(Float[Lora, "n m"], Float[Array, "m"], of=DOT, name="matvec")
    second = rule(Float[Lora, "n m"], Float[Array, "n"], of=DOT, name="vecmat")
    text = str(refused(first, second))
    assert text == (
        "table 'tested' was not registered (nothing changed).\n"
        "For `dot_general`, two handlers of precedence 0 both match and neither is more specific:\n"
        f'  (1) matvec(x: Float[Lora, "n m"], y: Float[Array, "m"])    {first.handler.place}\n'
        f'  (2) vecmat(x: Float[Lora, "n m"], y: Float[Array, "n"])    {second.handler.place}\n'
        "For example this call would be ambiguous:\n"
        "      dot_general(Lora f32[2,2], Array f32[2])\n"
        "Fix it in one of these ways:\n"
        "  - add a handler for exactly what both match, in the same table:\n"
        '      def NAME(x: Float[Lora, "n n"], y: Float[Array, "n"], /, ...): ...'
        "      ops.dot_general.to(NAME)\n"
        "  - or say which wins: ops.dot_general.to(matvec, precedence=1), or vecmat"
    )


def test_the_mirror_of_a_handler_is_told_to_be_commutative() -> None:
    text = str(refused(rule(Zero, Any, name="left"), rule(Any, Zero, name="right")))
    assert (
        "keep one of them for both orders of the operands, and drop the other: "
        "ops.mul.to(left, commutative=True)" in text
    )


def test_the_mirror_is_no_way_out_where_the_order_matters() -> None:
    rules = [rule(Zero, Any, of=SUB, name="left"), rule(Any, Zero, of=SUB, name="right")]
    assert "commutative" not in str(refused(*rules))


def test_a_handler_for_both_orders_beside_one_for_one_order_is_told_of() -> None:
    error = refused(
        rule(Zero, Any, name="general"), rule(Zero, Lora, name="special", commutative=True)
    )
    assert (
        "`special` stands for both orders of its operands, `general` for one: give `general` "
        "commutative=True too, or take it from `special`" in str(error)
    )
    assert "def NAME" not in str(error)
    for both in (True, False):
        assert HandlerTable(
            "fine",
            rule(Zero, Any, name="general", commutative=both),
            rule(Zero, Lora, name="special", commutative=both),
        )


def test_a_handler_that_settles_a_part_is_told_of_and_the_example_is_from_the_rest() -> None:
    error = refused(infinite(), nothing(), rule(Infinity, Float32[Zero, "..."], name="floats"))
    text = str(error)
    assert "Part of what both match is settled by:" in text
    assert "floats(" in text
    assert "this call would still be ambiguous" in text
    assert "f32" not in error.pairs[0].witness


def test_an_overlap_that_no_signature_says_is_told_without_one() -> None:
    error = refused(
        rule(Float[Lora, "*b 3"], Float[Array, "*b"], of=DOT, name="right"),
        rule(Float[Lora, "3 *b"], Float[Array, "*b"], of=DOT, name="left"),
    )
    assert error.pairs[0].meet is None
    assert "def NAME" not in str(error)
    assert "Fix it:\n  - say which wins: ops.dot_general.to(right, precedence=1)" in str(error)


def test_validators_are_told_to_be_ordered_by_precedence() -> None:
    small = Is[lambda value: value.ndim < 3]
    even = Is[lambda value: value.size % 2 == 0]
    error = refused(
        rule(Annotated[Lora, small], Array, name="small"),
        rule(Annotated[Lora, even], Array, name="even"),
    )
    assert "these validators cannot be compared, only precedence= can order them" in str(error)


def test_all_errors_of_a_table_are_told_at_once_and_sorted() -> None:
    rules = [
        infinite(),
        nothing(),
        rule(Zero, Lora, of=DOT, name="once"),
        rule(Zero, Lora, of=DOT, name="twice"),
        rule(Float[Lora, "n m"], of=NEG, name="any_matrix"),
        rule(Shaped[Lora, "n n"], of=NEG, name="square"),
    ]
    texts = set()
    for order in itertools.islice(itertools.permutations(rules), 0, None, 37):
        error = refused(*order)
        texts.add(str(error))
        assert isinstance(error, AmbiguityError)
        assert isinstance(error, DuplicateHandlerError)
    assert len(texts) == 1
    text = texts.pop()
    assert text.index("`dot_general`") < text.index("`mul`") < text.index("`neg`")


def test_a_group_is_told_of_once() -> None:
    group = (MUL, ADD_ANY, SUB)
    error = refused(
        rule(Infinity, Any, of=group, name="left"), rule(Any, Zero, of=group, name="right")
    )
    assert len(error.pairs) == 1
    assert "For `add_any`, `mul` and `sub`, two handlers" in str(error)


def test_an_error_text_stays_short_whatever_is_wrong() -> None:
    classes = [type(f"Class{place}", (ImplicitValue,), {}) for place in range(12)]
    long = " ".join(f"a_rather_long_name_{place}" for place in range(50))
    rules = [rule(Shaped[cls, long], Any, of=DOT, name=f"left_{cls.__name__}") for cls in classes]
    rules += [rule(Any, Shaped[cls, long], of=DOT, name=f"right_{cls.__name__}") for cls in classes]
    error = refused(*rules)
    assert len(error.pairs) == len(classes) ** 2
    assert len(str(error)) < 4_000
    assert "more" in str(error)


def test_an_error_survives_pickling() -> None:
    error = refused(infinite(), nothing())
    again = pickle.loads(pickle.dumps(error))  # our own bytes
    assert str(again) == str(error)
    assert again.pairs == error.pairs


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


# --- the installed table --------------------------------------------------------------------


def test_what_is_installed_is_found_until_it_is_uninstalled() -> None:
    table = HandlerTable("one", rule(Zero, of=NEG, name="negate"))
    before = installed_version()
    install(table)
    assert installed_version() > before
    assert chain(None, "neg", operand(Zero), isolated=False) == ["negate"]
    assert "negate" in [e.handler.name for e in installed_table().entries("neg")]
    uninstall(table)
    assert chain(None, "neg", operand(Zero), isolated=False) == []


def test_installing_twice_is_installing_once() -> None:
    table = HandlerTable("one", rule(Zero, of=NEG, name="negate"))
    install(table)
    install(table)
    uninstall(table)
    assert chain(None, "neg", operand(Zero), isolated=False) == []


def test_uninstalling_what_is_not_installed_is_told() -> None:
    with pytest.raises(TypedQaxError, match="table 'one' is not installed; installed are: "):
        uninstall(HandlerTable("one", infinite()))


def test_a_table_that_does_not_go_with_what_is_installed_changes_nothing() -> None:
    install(HandlerTable("first", infinite()))
    before = installed_now()
    with pytest.raises(AmbiguityError, match="table 'second' was not installed"):
        install(HandlerTable("second", nothing()))
    assert installed_now() is before


def test_blocks_nest_and_survive_exceptions() -> None:
    outer = HandlerTable("outer", rule(Zero, of=NEG, name="outer"))
    inner = HandlerTable("inner", rule(SmallZero, of=NEG, name="inner"))

    def now() -> list[str]:
        return chain(None, "neg", operand(SmallZero), isolated=False)

    with installed(outer):
        with contextlib.suppress(KeyError), installed(inner), installed(outer):
            assert now() == ["inner", "outer"]
            raise KeyError
        assert now() == ["outer"]
    assert now() == []


def test_a_block_leaves_what_was_installed_before() -> None:
    table = HandlerTable("one", rule(Zero, of=NEG, name="negate"))
    install(table)
    with installed(table):
        pass
    assert chain(None, "neg", operand(Zero), isolated=False) == ["negate"]


def test_uninstalling_inside_a_block_takes_effect_at_its_end() -> None:
    table = HandlerTable("one", rule(Zero, of=NEG, name="negate"))
    install(table)
    with installed(table):
        uninstall(table)
        assert chain(None, "neg", operand(Zero), isolated=False) == ["negate"]
    assert chain(None, "neg", operand(Zero), isolated=False) == []


def test_declaring_seals_together_in_any_order() -> None:
    parts = [HandlerTable("a", infinite()), HandlerTable("b", nothing())]
    for order in itertools.permutations(parts):
        with contextlib.suppress(AmbiguityError), declaring():
            for table in order:
                install(table)
        assert chain(None, "mul", operand(Infinity), operand(), isolated=False) == []
        glue = HandlerTable("glue", undefined())
        with declaring():
            for table in order:
                install(table)
            install(glue)
            assert chain(None, "mul", operand(Infinity), operand(), isolated=False) == []
        assert (
            chain(None, "mul", operand(Infinity), operand(Zero), isolated=False)[0] == "undefined"
        )
        with declaring():
            pass
        for table in (*parts, glue):
            uninstall(table)


def test_an_exception_in_a_declaring_block_registers_nothing() -> None:
    with pytest.raises(KeyError):
        fails(HandlerTable("a", infinite()))
    assert chain(None, "mul", operand(Infinity), operand(), isolated=False) == []


def test_declaring_blocks_nest_and_the_outer_one_seals() -> None:
    a, b = HandlerTable("a", infinite()), HandlerTable("b", nothing())
    glue = HandlerTable("glue", undefined())
    with declaring():
        with declaring():
            install(a)
        with pytest.raises(KeyError):
            fails(HandlerTable("lost", rule(Lora, of=NEG, name="lost")))
        install(b)
        install(glue)
    assert chain(None, "mul", operand(Infinity), operand(Zero), isolated=False)[0] == "undefined"
    assert chain(None, "neg", operand(Lora), isolated=False) == []


def test_a_table_taken_out_may_leave_an_ambiguity_for_the_call() -> None:
    a, b, glue = (
        HandlerTable("a", infinite()),
        HandlerTable("b", nothing()),
        HandlerTable("g", undefined()),
    )
    with declaring():
        for table in (a, b, glue):
            install(table)
    uninstall(glue)
    assert [each.code for each in findings(installed_table())] == ["ambiguous"]


# --- packages -------------------------------------------------------------------------------


def test_handlers_of_two_packages_do_not_stop_an_install_and_are_found() -> None:
    install(HandlerTable("one", infinite(module="first_lib.rules")))
    install(HandlerTable("two", nothing(module="second_lib.rules")))
    found = findings(installed_table())
    assert [each.code for each in found] == ["ambiguous"]
    assert "`mul`: infinite (" in found[0].text
    assert chain(None, "mul", operand(Infinity), operand(), isolated=False) == ["infinite"]


def test_handlers_of_two_modules_of_one_package_do_stop_it() -> None:
    install(HandlerTable("one", infinite(module="first_lib.rules")))
    with pytest.raises(AmbiguityError):
        install(HandlerTable("two", nothing(module="first_lib.more")))


def test_one_table_of_two_packages_is_refused_with_the_rule_to_paste() -> None:
    error = refused(infinite(module="first_lib"), nothing(module="second_lib"))
    assert 'tq.install(tq.HandlerTable("glue", ops.mul.to(NAME)))' in str(error)


def test_the_same_operands_in_two_packages_do_not_stop_an_install() -> None:
    install(HandlerTable("one", infinite(module="first_lib")))
    install(HandlerTable("two", infinite(module="second_lib")))
    assert [each.code for each in findings(installed_table())] == ["duplicate"]


# --- once more: reloads and notebooks -------------------------------------------------------


def run_module(source: str, namespace: dict[str, Any], file: str = "module.py") -> None:
    exec(compile(source, file, "exec"), namespace)  # what a reload or a cell does


CELL = """
from typing import Any
from tests.handler_kit import NEG, Zero, Rule
def negate(x: Zero, /, **params: Any) -> Zero: ...
RULE = Rule.declare(negate, (NEG,))
"""
LOOP = """
from typing import Any
from tests.handler_kit import NEG, Zero, Lora, Rule
RULES = []
for cls in (Zero, Lora):
    def negate(x: cls, /, **params: Any) -> cls: ...
    RULES.append(Rule.declare(negate, (NEG,)))
"""


def uninstalled_rules(rules: Sequence[Rule]) -> HandlerTable:
    """A table of what stays of `rules` when they come one after the other."""
    return HandlerTable("stays", *rules)


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    found = types.ModuleType("reloaded_module")
    sys.modules["reloaded_module"] = found
    yield found
    del sys.modules["reloaded_module"]


def test_a_cell_that_runs_again_replaces_its_handler(module: types.ModuleType) -> None:
    run_module(CELL, module.__dict__)
    first = module.RULE
    run_module(CELL, module.__dict__)
    assert HandlerTable("stays", first, module.RULE).rules == (module.RULE,)
    assert HandlerTable("stays", module.RULE, first).rules == (module.RULE,)


def test_an_edited_cell_replaces_its_handler(module: types.ModuleType) -> None:
    run_module(CELL, module.__dict__, "cell-1")
    first = module.RULE
    run_module("\n\n" + CELL, module.__dict__, "cell-2")
    assert HandlerTable("stays", first, module.RULE).rules == (module.RULE,)


def test_a_reloaded_module_replaces_its_handlers(module: types.ModuleType) -> None:
    module.__spec__ = object()  # type: ignore[assignment]  # reload makes a new one
    run_module(CELL, module.__dict__)
    first = module.RULE
    module.__spec__ = object()  # type: ignore[assignment]  # the same
    run_module("\n\n" + CELL, module.__dict__)
    assert HandlerTable("stays", first, module.RULE).rules == (module.RULE,)


def test_two_handlers_of_one_name_in_one_run_are_two(module: types.ModuleType) -> None:
    module.__spec__ = object()  # type: ignore[assignment]  # as a module that is imported has
    run_module(CELL + CELL.replace("Zero", "Lora").replace("RULE", "OTHER"), module.__dict__)
    assert len(HandlerTable("both", module.RULE, module.OTHER)) == 2


def test_handlers_that_a_loop_makes_are_two(module: types.ModuleType) -> None:
    run_module(LOOP, module.__dict__)
    assert len(HandlerTable("both", *module.RULES)) == 2


def test_a_loop_that_runs_again_replaces_all_that_it_made(module: types.ModuleType) -> None:
    run_module(LOOP, module.__dict__)
    first = module.RULES
    run_module(LOOP, module.__dict__)
    assert HandlerTable("stays", *first, *module.RULES).rules == tuple(module.RULES)


def test_a_table_installed_from_a_cell_that_runs_again_replaces_its_earlier_self(
    module: types.ModuleType,
) -> None:
    source = CELL + "from tests.handler_kit import HandlerTable\nTABLE = HandlerTable('t', RULE)\n"
    run_module(source, module.__dict__)
    first = module.TABLE
    install(first)
    run_module(source.replace("negate", "opposite"), module.__dict__)
    install(module.TABLE)
    assert chain(None, "neg", operand(Zero), isolated=False) == ["opposite"]
    assert first not in [hold.part for hold in installed_now().holds]


def test_a_decorated_handler_that_comes_again_replaces_its_earlier_self(
    module: types.ModuleType,
) -> None:
    run_module(CELL, module.__dict__)
    install_rule(module.RULE)
    run_module(CELL.replace("Zero", "Lora"), module.__dict__)
    install_rule(module.RULE)
    assert [entry.rule for entry in installed_table().entries("neg")] == [module.RULE]
    assert [hold.part for hold in installed_now().holds] == [module.RULE]


# --- classes of two kinds -------------------------------------------------------------------


def joined(*bases: type) -> type:
    cls = type("Joined", bases, {})
    recheck_class(cls)
    return cls


def two_kinds() -> tuple[type, type, HandlerTable]:
    """Two classes of a test's own, and a handler for each."""

    class Left(ImplicitValue): ...

    class Right(ImplicitValue): ...

    rules = [rule(Left, of=NEG, name="left"), rule(Right, of=NEG, name="right")]
    return Left, Right, HandlerTable("sides", *rules)


def test_a_class_of_two_kinds_is_refused_where_handlers_become_ambiguous() -> None:
    left, right, table = two_kinds()
    with installed(table):
        with pytest.raises(AmbiguityError) as caught:
            joined(left, right)
        text = str(caught.value)
        assert "class Joined(Left, Right) joins several kinds of implicit array" in text
        assert "left(x: Left)" in text
        assert "right(x: Right)" in text


def test_a_refused_class_leaves_no_trace() -> None:
    left, right, table = two_kinds()
    with installed(table), pytest.raises(AmbiguityError):
        joined(left, right)
    assert HandlerTable("again", *table.rules)
    with installed(HandlerTable("again", table)):
        pass


def test_a_class_of_two_kinds_is_accepted_where_nothing_becomes_ambiguous() -> None:
    left, right, _ = two_kinds()
    table = HandlerTable("one", rule(left, of=NEG, name="left"), rule(right, of=EXP, name="right"))
    with installed(table):
        cls = joined(left, right)
        assert chain(None, "neg", operand(cls), isolated=False) == ["left"]


def test_a_class_of_one_kind_is_never_asked_about() -> None:
    left, _, table = two_kinds()
    with installed(table):
        before = installed_now()
        joined(left)
        joined(left, ImplicitValue)
        assert installed_now() is before


def test_a_class_and_the_handler_that_settles_it_may_be_declared_together() -> None:
    left, right, table = two_kinds()
    with declaring():
        install(table)
        cls = joined(left, right)
        both = HandlerTable("both", rule(cls, of=NEG, name="both"))
        install(both)
    assert chain(None, "neg", operand(cls), isolated=False)[0] == "both"


def test_a_table_sealed_before_a_class_of_two_kinds_is_looked_at_again() -> None:
    class One(ImplicitValue): ...

    class Two(ImplicitValue): ...

    table = HandlerTable("sides", rule(One, of=NEG, name="one"), rule(Two, of=NEG, name="two"))
    cls = joined(One, Two)
    with pytest.raises(AmbiguityError):
        install(table)
    with pytest.raises(AmbiguityError):
        HandlerTable("composed", table)
    assert cls.__bases__ == (One, Two)


# --- findings -------------------------------------------------------------------------------


def codes(*rules: Rule) -> dict[str, str]:
    return {each.code: each.text for each in findings(HandlerTable("tested", *rules))}


def test_a_handler_behind_a_general_one_of_higher_precedence_is_found() -> None:
    general = rule(Zero, of=NEG, name="general", returns=Array, precedence=1)
    special = rule(SmallZero, of=NEG, name="special", returns=Array)
    text = codes(general, special)["unreachable"]
    assert "`special` never runs for `neg`" in text
    assert "`general`" in text


def test_a_handler_behind_one_that_may_decline_is_not() -> None:
    general = rule(Zero, of=NEG, name="general", returns=MAYBE, precedence=1)
    assert codes(general, rule(SmallZero, of=NEG, name="special", returns=Array)) == {}


def test_a_handler_that_several_cover_is_found() -> None:
    rules = [
        rule(Shaped[Zero, "_ ..."], of=NEG, name="arrays", returns=Array),
        rule(Shaped[Zero, ""], of=NEG, name="scalars", returns=Array),
        rule(Zero, of=NEG, name="covered", returns=Array),
    ]
    assert "`covered` never runs" in codes(*rules)["unreachable"]


def test_a_rule_without_its_counterpart_is_found() -> None:
    rules = [
        rule(Zero, Zero, of=SUB, name="general", returns=Array),
        rule(Zero, SmallZero, of=SUB, name="special", returns=Array),
    ]
    text = codes(*rules)["one-sided"]
    assert "`special` has no counterpart for the other order: sub(SmallZero" in text
    assert "falls to `general`" in text
    both = rule(SmallZero, SmallZero, of=SUB, name="both", returns=Array)
    counterpart = rule(SmallZero, Zero, of=SUB, name="counterpart", returns=Array)
    assert codes(*rules, counterpart, both) == {}


def test_a_param_that_no_primitive_has_is_found() -> None:
    def handle(x: Zero, *, acuracy: object = None, **params: Any) -> Array: ...

    assert (
        "names the param `acuracy`, which `exp` never gives"
        in codes(Rule.declare(handle, (EXP,)))["unknown-param"]
    )


def test_a_finding_is_printed_as_type_checkers_print() -> None:
    def handle(x: Zero, *, acuracy: object = None, **params: Any) -> Array: ...

    found = findings(HandlerTable("tested", Rule.declare(handle, (EXP,))))
    assert str(found[0]).startswith(f"{__file__}:{handle.__code__.co_firstlineno}: error: `handle`")
    assert str(found[0]).endswith("[unknown-param]")


def test_what_runs_for_any_primitive_is_ranked_like_the_rest() -> None:
    table = HandlerTable(
        "any",
        rule(rest=Any, of=ANY, name="wide"),
        rule(rest=Zero, of=ANY, name="narrow"),
    )
    assert [entry.handler.name for entry in table.entries("*")] == ["narrow", "wide"]
