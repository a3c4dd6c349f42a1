"""The process-wide table: changes are atomic, and reloads take the place of what was."""

# What these handlers would compute plays no part here.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import contextlib
import itertools
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.handler_kit import (
    EXP,
    NEG,
    Infinity,
    Lora,
    SmallZero,
    Zero,
    chain,
    infinite,
    nothing,
    operand,
    refused,
    rule,
    undefined,
)
from typedqax._errors import (
    AmbiguityError,
    UsageError,
)
from typedqax._findings import Finding, findings
from typedqax._installed import (
    declaring,
    install,
    install_rule,
    installed,
    installed_now,
    installed_table,
    installed_version,
    recheck_class,
    uninstall,
)
from typedqax._rule import Rule
from typedqax._table import HandlerTable
from typedqax._value import ImplicitValue

pytestmark = pytest.mark.usefixtures("nothing_else_installed")


def errors_installed() -> list[Finding]:
    """What is found in all that is installed, without what may be meant."""
    return [each for each in findings(installed_table()) if each.severity == "error"]


def fails(*parts: HandlerTable) -> None:
    with declaring():
        for part in parts:
            install(part)
        raise KeyError


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
    with pytest.raises(UsageError, match="table 'one' is not installed; installed are: "):
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
    assert [each.code for each in errors_installed()] == ["ambiguous"]


# --- packages -------------------------------------------------------------------------------


def test_handlers_of_two_packages_do_not_stop_an_install_and_are_found() -> None:
    install(HandlerTable("one", infinite(module="first_lib.rules")))
    install(HandlerTable("two", nothing(module="second_lib.rules")))
    found = errors_installed()
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
    assert [each.code for each in errors_installed()] == ["duplicate"]


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


@pytest.mark.parametrize(
    ("given", "shown"),
    [(Zero, "the class Zero"), (3, "int"), ([], "list")],
    ids=["class", "number", "list"],
)
def test_what_is_no_table_is_told_by_what_it_is(given: Any, shown: str) -> None:
    with pytest.raises(UsageError) as caught:
        install(given)
    assert str(caught.value) == f"install takes a HandlerTable; got {shown}"
