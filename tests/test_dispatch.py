"""Dispatch finds what the table says, says why when it finds nothing, and remembers little."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from typing import Annotated, Any

import pytest
from beartype.vale import Is
from jax import Array
from jaxtyping import Float, Shaped

from tests.handler_kit import (
    ANY,
    DOT,
    MAYBE,
    MUL,
    NEG,
    Infinity,
    Lora,
    SmallZero,
    Zero,
    chain,
    operand,
    resolved,
    rule,
)
from typedqax import _dispatch
from typedqax._dispatch import Resolution, Tables, resolve
from typedqax._errors import AmbiguityError
from typedqax._installed import install, installed, uninstall
from typedqax._misses import misses
from typedqax._signature import Dense, Operand
from typedqax._table import HandlerTable
from typedqax._value import ImplicitValue

pytestmark = pytest.mark.usefixtures("nothing_else_installed")


def zeros() -> HandlerTable:
    return HandlerTable(
        "zeros",
        rule(Zero, of=NEG, name="general"),
        rule(Float[Zero, "n"], of=NEG, name="vector"),
        rule(Float[Zero, "3"], of=NEG, name="three"),
        rule(SmallZero, of=NEG, name="small", precedence=1),
    )


def test_the_most_specific_handler_comes_first() -> None:
    table = zeros()
    assert chain(table, "neg", operand(Zero, 3)) == ["three", "vector", "general"]
    assert chain(table, "neg", operand(Zero, 4)) == ["vector", "general"]
    assert chain(table, "neg", operand(Zero, 4, 4)) == ["general"]
    assert chain(table, "neg", operand(Zero, 3, dtype="int32")) == ["general"]
    assert chain(table, "neg", operand(SmallZero, 3)) == ["small", "three", "vector", "general"]


def test_nothing_is_found_where_nothing_matches() -> None:
    assert chain(zeros(), "neg", operand(Lora)) == []
    assert chain(zeros(), "exp", operand(Zero)) == []
    assert chain(None, "neg", operand(Zero)) == []


def test_a_subclass_that_comes_later_is_dispatched_as_its_base() -> None:
    table = zeros()

    class Later(Zero): ...

    assert chain(table, "neg", operand(Later, 3)) == ["three", "vector", "general"]


def test_a_candidate_carries_the_sizes_of_its_axes() -> None:
    table = HandlerTable("m", rule(Float[Array, "*b m"], Float[Lora, "m n"], of=DOT))
    found = resolved(table, "dot_general", operand(Dense, 5, 2, 3), operand(Lora, 3, 4))
    assert found.chain[0].match.bindings == {"*b": (5, 2), "m": 3, "n": 4}


def test_a_commutative_handler_is_called_with_its_operands_in_its_own_order() -> None:
    table = HandlerTable("z", rule(Zero, Any, commutative=True))
    assert not resolved(table, "mul", operand(Zero), operand()).chain[0].swapped
    assert resolved(table, "mul", operand(), operand(Zero)).chain[0].swapped
    assert not resolved(table, "mul", operand(Zero), operand(Zero)).chain[0].swapped


# --- where handlers are looked for ----------------------------------------------------------


def test_extra_handlers_come_first_then_installed_ones_then_those_for_any_primitive() -> None:
    extra = HandlerTable(
        "extra", rule(Zero, of=NEG, name="extra"), rule(rest=Zero, of=ANY, name="extra_any")
    )
    base = HandlerTable(
        "base", rule(SmallZero, of=NEG, name="base"), rule(rest=Zero, of=ANY, name="base_any")
    )
    install(base)
    call = ("neg", operand(SmallZero))
    assert chain(extra, *call, isolated=False) == ["extra", "base", "extra_any", "base_any"]
    assert chain(extra, *call, isolated=True) == ["extra", "extra_any"]
    assert chain(None, *call, isolated=False) == ["base", "base_any"]
    assert chain(None, *call, isolated=True) == []
    assert chain(extra, "cos", operand(Zero), isolated=False) == ["extra_any", "base_any"]


def test_a_rule_that_is_extra_and_installed_runs_once() -> None:
    table = zeros()
    install(table)
    assert chain(table, "neg", operand(Zero, 4), isolated=False) == ["vector", "general"]


def test_tables_are_compared_by_what_they_look_in() -> None:
    table = zeros()
    assert Tables(table, isolated=True) == Tables.of(table, isolated=True)
    assert hash(Tables(table, isolated=True)) == hash(Tables.of(table, isolated=True))
    assert Tables.of(table) is Tables.of(table)
    assert Tables.of(table) != Tables.of(table, isolated=True)
    assert Tables.of(zeros()) != Tables.of(table)


# --- the cache ------------------------------------------------------------------------------


def test_the_same_call_again_gives_the_same_answer_object() -> None:
    table = zeros()
    first = resolved(table, "neg", operand(Zero, 3))
    assert resolved(table, "neg", operand(Zero, 3)) is first


def test_a_shape_is_remembered_only_where_a_handler_looks_at_shapes() -> None:
    table = HandlerTable("z", rule(Zero, Float[Lora, "..."]), rule(Infinity, Float[Lora, "n n"]))

    def same(first: Operand, *others: Operand) -> bool:
        return (
            len({id(resolved(table, "mul", operand(first.cls, 2, 2), each)) for each in others})
            == 1
        )

    assert same(operand(Zero), operand(Lora, 2, 2), operand(Lora, 3, 3))
    assert not same(operand(Infinity), operand(Lora, 2, 2), operand(Lora, 3, 3))
    assert not same(operand(Zero), operand(Lora, 2, 2), operand(Lora, 2, 2, dtype="int32"))
    free = resolved(table, "mul", operand(Infinity, 9), operand(Lora, 2, 2))
    assert resolved(table, "mul", operand(Infinity, 8), operand(Lora, 2, 2)) is free


def test_what_is_installed_later_is_found() -> None:
    table = zeros()
    call = ("neg", operand(Zero, 3))
    assert chain(None, *call, isolated=False) == []
    with installed(table):
        assert chain(None, *call, isolated=False) == ["three", "vector", "general"]
    assert chain(None, *call, isolated=False) == []


def test_a_change_drops_what_is_remembered_of_its_primitives_alone() -> None:
    install(zeros())
    call = ("neg", operand(Zero, 3))
    before = resolved(None, *call, isolated=False)
    other = HandlerTable("other", rule(Lora, Any, of=MUL))
    install(other)
    assert resolved(None, *call, isolated=False) is before
    uninstall(other)
    assert resolved(None, *call, isolated=False) is before
    install(HandlerTable("more", rule(Lora, of=NEG, name="more")))
    assert resolved(None, *call, isolated=False) is not before


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dispatch, "_MOST_KEYS", 10)
    monkeypatch.setattr(_dispatch, "_MOST_CLASSES", 5)
    table = zeros()
    classes = [type(f"Zero{place}", (Zero,), {}) for place in range(20)]
    for cls, size in itertools.product(classes, range(1, 20)):
        expected = ["three", "vector", "general"] if size == 3 else ["vector", "general"]
        assert chain(table, "neg", operand(cls, size)) == expected
    resolver = Tables.of(table, isolated=True)._resolvers["neg"]
    assert len(resolver.families) <= 5
    assert all(len(family.known) <= 10 for family in resolver.families.values())


def test_the_memory_keeps_no_class_alive_and_no_later_class_meets_it() -> None:
    table = zeros()
    tables = Tables.of(table, isolated=True)

    def use() -> weakref.ref[type]:
        class Passing(ImplicitValue): ...

        assert chain(table, "neg", operand(Passing, 3)) == []
        assert chain(None, "neg", operand(Passing, 3), isolated=False) == []
        return weakref.ref(Passing)

    gone = use()
    gc.collect()
    assert gone() is None
    assert not tables._resolvers["neg"].families
    # A class that takes over the id of one that is gone must be dispatched as itself.
    for _ in range(200):
        made = type("Zero", (Zero,), {})
        assert chain(table, "neg", operand(made, 4)) == ["vector", "general"]
        del made
        other = type("Other", (ImplicitValue,), {})
        assert chain(table, "neg", operand(other, 4)) == []
        del other
        gc.collect(0)


def test_what_is_uninstalled_is_not_kept_alive_by_what_was_resolved() -> None:
    extra = zeros()

    def use() -> list[weakref.ref[Any]]:
        class Passing(ImplicitValue): ...

        table = HandlerTable("passing", rule(Passing, of=NEG, name="passing"))
        with installed(table):
            assert chain(None, "neg", operand(Passing), isolated=False) == ["passing"]
            assert chain(extra, "neg", operand(Passing), isolated=False) == ["passing"]
        return [weakref.ref(Passing), weakref.ref(table)]

    gone = use()
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_threads_that_install_and_resolve_see_whole_tables() -> None:
    general = HandlerTable("general", rule(Zero, of=NEG, name="general"))
    pair = HandlerTable(
        "pair",
        rule(SmallZero, of=NEG, name="small"),
        rule(Float[SmallZero, "..."], of=NEG, name="floats"),
    )
    install(general)
    allowed = [["general"], ["floats", "small", "general"]]
    wrong: list[list[str]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            found = chain(None, "neg", operand(SmallZero, 2), isolated=False)
            if found not in allowed:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        with installed(pair):
            pass
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- validators -----------------------------------------------------------------------------


def test_validators_are_asked_about_the_values_of_each_call() -> None:
    positive = Is[lambda value: value > 0]
    table = HandlerTable(
        "values",
        rule(Annotated[Zero, positive], of=NEG, name="positive"),
        rule(Zero, of=NEG, name="general"),
    )
    tables = Tables.of(table, isolated=True)

    def names(*values: int) -> list[str]:
        found = resolve(tables, "neg", (operand(Zero),), values)
        return [each.entry.handler.name for each in found.chain]

    assert names(1) == ["positive", "general"]
    assert names(-1) == ["general"]
    assert names(2) == ["positive", "general"]


# --- ties at run time -----------------------------------------------------------------------


def tied(found: Resolution, declined: int = 0) -> str:
    error = found.ambiguous_after(declined)
    assert isinstance(error, AmbiguityError)
    return str(error)


def test_handlers_of_two_packages_that_meet_are_an_error_with_the_rule_to_paste() -> None:
    install(HandlerTable("one", rule(Infinity, Any, name="infinite", module="first_lib")))
    install(HandlerTable("two", rule(Any, Zero, name="nothing", module="second_lib")))
    found = resolved(None, "mul", operand(Infinity), operand(Zero), isolated=False)
    text = tied(found)
    assert "mul(Infinity f32[2,3], Zero f32[2,3]) has no single best handler." in text
    assert "infinite(" in text
    assert "nothing(" in text
    assert "def NAME(x: Infinity, y: Zero, /, ...)" in text
    assert 'tq.install(tq.HandlerTable("glue", ops.mul.to(NAME)))' in text
    alone = resolved(None, "mul", operand(Infinity), operand(), isolated=False)
    assert alone.ambiguous_after(0) is None


def test_the_same_operands_in_two_packages_are_an_error_when_called() -> None:
    install(HandlerTable("one", rule(Zero, of=NEG, name="first", module="first_lib")))
    install(HandlerTable("two", rule(Zero, of=NEG, name="second", module="second_lib")))
    tied(resolved(None, "neg", operand(Zero), isolated=False))


def test_an_unannotated_handler_that_declines_leaves_a_tie() -> None:
    table = HandlerTable(
        "unknown",
        rule(Infinity, Any, name="infinite"),
        rule(Any, Zero, name="nothing"),
        rule(Infinity, Zero, name="undefined"),
    )
    found = resolved(table, "mul", operand(Infinity), operand(Zero))
    assert found.ambiguous_after(0) is None
    assert "has no single best handler after `undefined` declined" in tied(found, 1)
    assert found.ambiguous_after(2) is None
    assert found.ambiguous_after(3) is None


def test_in_an_accepted_table_decliners_leave_no_tie() -> None:
    table = HandlerTable(
        "declining",
        rule(Infinity, Any, name="infinite", returns=MAYBE),
        rule(Any, Zero, name="nothing", returns=MAYBE),
        rule(Infinity, Zero, name="undefined", returns=Array),
        rule(Float[Infinity, "..."], Zero, name="floats", returns=MAYBE),
    )
    found = resolved(table, "mul", operand(Infinity), operand(Zero))
    names = [candidate.entry.handler.name for candidate in found.chain]
    assert names[:2] == ["floats", "undefined"]
    assert found.ambiguous_after(0) is None
    assert found.ambiguous_after(1) is None


def test_a_class_of_two_kinds_that_nobody_checked_is_a_tie_when_called() -> None:
    class Left(ImplicitValue): ...

    class Right(ImplicitValue): ...

    table = HandlerTable(
        "sides", rule(Left, of=NEG, name="left"), rule(Right, of=NEG, name="right")
    )

    class Both(Left, Right): ...

    assert "left(" in tied(resolved(table, "neg", operand(Both)))


# --- reports --------------------------------------------------------------------------------


def reasons(table: HandlerTable | None, *operands: Operand) -> list[tuple[str, str]]:
    primitive = "neg" if len(operands) == 1 else "dot_general"
    found = misses(Tables.of(table), primitive, operands)
    return [(miss.entry.handler.name, miss.reason) for miss in found]


def test_the_nearest_handlers_come_first_with_what_failed() -> None:
    table = HandlerTable(
        "m",
        rule(Float[Zero, "m"], Float[Zero, "m"], of=DOT, name="other"),
        rule(Float[Array, "*b m"], Float[Lora, "m n"], of=DOT, name="matmul"),
        rule(Lora, Shaped[Array, "..."], of=DOT, name="left"),
    )
    found = reasons(table, operand(Dense, 5, 3), operand(Lora, 4, 6))
    assert found == [
        ("matmul", "axis m is 4 (operand 2, axis 0), but 3 from operand 1, axis 1"),
        ("other", "operand 1: Array, expected Zero"),
        ("left", "operand 1: Array, expected Lora"),
    ]


def test_a_table_that_is_declared_but_not_installed_is_named() -> None:
    table = HandlerTable("forgotten", rule(Infinity, of=NEG, name="negate"))
    ((name, reason),) = reasons(None, operand(Infinity))
    assert name == "negate"
    assert reason == (
        f"it is in the table 'forgotten' ({table.origin.place}), which is not installed "
        "and was not given as handlers="
    )
    install(table)
    assert reasons(None, operand(Infinity)) == []


def test_a_table_that_is_gone_is_not_named() -> None:
    table = HandlerTable("forgotten", rule(Infinity, of=NEG, name="negate"))
    del table
    gc.collect()
    assert reasons(None, operand(Infinity)) == []
