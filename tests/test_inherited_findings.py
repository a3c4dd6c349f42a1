"""What is found in classes that handlers of a base take, though they stand for something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mistakes import HEAD, only
from typedqax._check import check_packages

RULES = """\
def product(x: Array, w: Low, /, **params: Any) -> Array: ...
def negated(w: Low, /) -> Low: ...
def moved(w: Float[Low, "m n"], /, **params: Any) -> Low: ...
def anything(op: ops.UnaryOp, w: Low | Array, /, **params: Any) -> Array: ...
T = tq.HandlerTable(
    "t",
    ops.dot_general.to(product),
    ops.neg.to(negated),
    ops.transpose.to(moved),
    (ops.exp | ops.sin).to(anything),
)
"""

SCALED = """\
class Scaled(Low):
    m: Float[tq.ArrayValue, ""]
    def materialize(self) -> Array:
        return super().materialize() * self.m
"""


def found_in(package: Callable[..., Path], name: str, body: str) -> list[tuple[str, str, str]]:
    """The code, the line and the text of what is found in a package of one module."""
    package(name, rules=HEAD + body)
    lines = (HEAD + body).splitlines()
    return [
        (each.code, lines[each.line - 1].strip(), each.text)
        for each in check_packages(name).findings
    ]


def test_handlers_that_were_written_for_another_materialize_are_named(
    package: Callable[..., Path],
) -> None:
    finding, at = only(package, "sample_dora", SCALED + RULES)
    file, first = finding.file, len((HEAD + SCALED).splitlines()) + 1
    assert (finding.code, finding.severity, at) == (
        "inherited-handler",
        "warning",
        "class Scaled(Low):",
    )
    assert finding.text == (
        "`Scaled` overrides the `materialize` of Low, and handlers declared for Low take it, which "
        f"compute what that one gives: `product` ({file}:{first}), `negated` ({file}:{first + 1}), "
        f"`moved` ({file}:{first + 2}) and 1 more, for `dot_general`, `exp`, `neg` and 2 more; "
        "declare handlers for Scaled, or derive both from an abstract class that they have in "
        "common, or see with typedqax.testing.check_handlers that these agree with "
        "Scaled.materialize"
    )


def test_handlers_of_another_package_are_named_for_the_package_of_the_class_alone(
    package: Callable[..., Path],
) -> None:
    package("sample_base", rules=HEAD + RULES)
    name = "sample_derived"
    body = "from sample_base.rules import Low as Base\n" + SCALED.replace("(Low)", "(Base)")
    finding, at = only(package, name, body)
    assert (finding.code, at) == ("inherited-handler", "class Scaled(Base):")
    assert "sample_base/rules.py" in finding.text
    assert check_packages("sample_base").findings == ()


SIBLINGS = """\
class Base(tq.ImplicitArray):
    x: Float[tq.ArrayValue, "n"]
class One(Base):
    def materialize(self) -> Array:
        return self.x
class Other(Base):
    def materialize(self) -> Array:
        return -self.x
def of_base(x: Base, /) -> Base: ...
T = tq.HandlerTable("t", ops.neg.to(of_base))
"""

INHERITING: dict[str, tuple[str, list[str]]] = {
    "no handlers": (SCALED, []),
    "own handlers for some": (
        SCALED
        + RULES
        + "def own(w: Scaled, /) -> Scaled: ...\n"
        + 'U = tq.HandlerTable("u", ops.neg.to(own))\n',
        ["Scaled"],
    ),
    "own handlers for all": (
        SCALED + RULES + RULES.replace("Low", "Scaled").replace("T =", "U =").replace('"t"', '"u"'),
        [],
    ),
    "the same materialize": (RULES + "class More(Low):\n    c: int = tq.aux_field()\n", []),
    "told of the base": (RULES + SCALED + "class More(Scaled): ...\n", ["Scaled"]),
    "overridden again": (
        RULES
        + SCALED
        + "class Again(Scaled):\n    def materialize(self) -> Array:\n        return self.a\n",
        ["Scaled", "Again"],
    ),
    "by a class that is not implicit": (
        RULES
        + "class Mixin:\n    def materialize(self) -> Array:\n        return self.a\n"
        + "class Mixed(Mixin, Low): ...\n",
        ["Mixed"],
    ),
    "an abstract base": (SIBLINGS, []),
    "handlers of all implicit arrays": (
        SCALED
        + "def of_all(x: tq.ImplicitArray, /, **params: Any) -> Array: ...\n"
        + 'T = tq.HandlerTable("t", ops.sin.to(of_all))\n',
        [],
    ),
    "fields that are refused": (
        RULES + "class Bad(Low):\n    c: list[int] = []\n    def materialize(self) -> Array: ...\n",
        ["Bad"],
    ),
    "an abstract class": (
        RULES
        + "from abc import abstractmethod\n"
        + "class Part(Low):\n"
        + "    @abstractmethod\n    def materialize(self) -> Array: ...\n",
        [],
    ),
}


@pytest.mark.parametrize("kind", INHERITING)
def test_each_class_is_told_once_that_handlers_of_its_base_take_it(
    package: Callable[..., Path], kind: str
) -> None:
    body, classes = INHERITING[kind]
    found = found_in(package, f"sample_{kind.replace(' ', '_')}", body)
    told = [line for code, line, _ in found if code == "inherited-handler"]
    assert [line.removeprefix("class ").partition("(")[0] for line in told] == classes


def test_handlers_for_the_class_itself_leave_the_rest_to_be_told(
    package: Callable[..., Path],
) -> None:
    body, _ = INHERITING["own handlers for some"]
    ((_, _, text),) = found_in(package, "sample_some", body)
    assert "`negated`" not in text
    assert ", for `dot_general`, `exp`, `sin` and 1 more; " in text


def test_handlers_of_the_class_for_one_operand_leave_another_to_be_told(
    package: Callable[..., Path],
) -> None:
    body = (
        SCALED
        + "def right(x: Array, w: Low, /, **params: Any) -> Array: ...\n"
        + "def left(w: Low, x: Array, /, **params: Any) -> Array: ...\n"
        + 'T = tq.HandlerTable("t", ops.dot_general.to(right), ops.dot_general.to(left))\n'
        + "def own(x: Array, w: Scaled, /, **params: Any) -> Array: ...\n"
        + 'U = tq.HandlerTable("u", T, ops.dot_general.to(own))\n'
    )
    found = found_in(package, "sample_operand", body)
    ((_, _, text),) = [each for each in found if each[0] == "inherited-handler"]
    assert "`left` (" in text
    assert "`right`" not in text
    assert ", for `dot_general` (operand 1); declare handlers for Scaled, or " in text
