"""The check of whole programs: what is found in handlers and tables, and in which packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import typedqax as tq
from tests.mistakes import CLASSES, HANDLERS, HEAD, only
from typedqax._check import check_packages
from typedqax._findings import CODES
from typedqax._installed import installed_table


@pytest.mark.parametrize(("body", "code", "line", "text"), HANDLERS.values(), ids=HANDLERS.keys())
def test_what_is_wrong_with_handlers_is_found_at_its_line(
    package: Callable[..., Path], body: str, code: str, line: str, text: str
) -> None:
    finding, at = only(package, f"sample_{code.replace('-', '_')}_{abs(hash(body))}", body)
    assert finding.code == code
    assert at.startswith(line)
    assert text in finding.text
    assert code in CODES
    noted = code == "declined-param" or "stands for both" in text
    others = {"inherited-handler": "warning"}
    assert finding.severity == ("note" if noted else others.get(code, "error"))


def test_the_handler_that_settles_an_ambiguity_is_told(package: Callable[..., Path]) -> None:
    finding, _ = only(package, "sample_meet", HANDLERS["ambiguous"][0])
    assert finding.text.endswith(
        'add a handler for (x: Float[Low, "_ _"], y: Float[Array, "m n"]), or give one a precedence'
    )


def test_a_class_that_no_handler_names_is_told_with_its_place(package: Callable[..., Path]) -> None:
    finding, _ = only(package, "sample_joins", HANDLERS["class that joins two kinds"][0])
    line = (
        (HEAD + HANDLERS["class that joins two kinds"][0])
        .splitlines()
        .index("class Both(Low, Other): ...")
    )
    file = Path("sample_joins/rules.py").resolve()
    assert f", where Both is the class at {file}:{line + 1}; " in finding.text


def test_all_that_is_wrong_in_one_module_is_found_in_one_run(package: Callable[..., Path]) -> None:
    left_out = ("declared twice under one name", "table that is not installed")
    bodies = {
        kind: re.sub(r"\b(bad|T)\b", rf"\g<1>{at}", body)
        for at, (kind, (body, *_)) in enumerate(HANDLERS.items())
        if kind not in left_out and "class " not in body and "def bad(" in body
    }
    package("sample_all", rules=HEAD + "".join(bodies.values()))
    codes = [HANDLERS[kind][1] for kind in bodies]
    assert [each.code for each in check_packages("sample_all").findings] == codes


def test_every_annotation_of_one_handler_is_looked_at(package: Callable[..., Path]) -> None:
    body = (
        'def bad(x: Lwo, y: Float[Low, "n ++"], z: str, /, *, axis: Foo) -> Arry: ...\n'
        "T = ops.sub.to(bad)\n"
    )
    package("sample_each", rules=HEAD + body)
    found = check_packages("sample_each").findings
    assert [(each.line, each.code) for each in found] == [(14, "annotation")] * 4 + [(14, "shape")]
    told = " ".join(each.text for each in found)
    assert all(f"`{name}`, '{text}'," in told for name, text in (("x", "Lwo"), ("axis", "Foo")))
    assert "the result, 'Arry'," in told
    assert "parameter 'z': str is not a dispatch class" in told


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    base: Low\n"
            "    def materialize(self) -> Array:\n"
            "        return self.base.a\n",
            id="a field that is implicit only",
        ),
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    x: tq.ArrayValue\n"
            "    def materialize(self) -> Array:\n"
            "        return self.x @ self.x.T\n",
            id="a field of any rank",
        ),
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    x: Float[tq.ArrayValue, 'n']\n"
            "    def materialize(self) -> Array:\n"
            "        return self.x.reshape(self.shape)\n",
            id="a shape that instances are given",
        ),
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    x: Float[tq.ArrayValue, 'n']\n"
            "    mode: str = tq.aux_field()\n"
            "    def materialize(self) -> Array:\n"
            "        return getattr(self.x, self.mode)()\n",
            id="auxiliary data that is not known",
        ),
        pytest.param(
            "class Narrow(Low):\n"
            '    def materialize(self) -> Float[Array, "n"]:\n'
            "        return self.b @ self.a[0]\n"
            'def fine(x: Float[Low, "n"], /) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="axes that a subclass has",
        ),
        pytest.param(
            'def fine(x: Float[Low, "k m n"], /) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="axes of a stack",
        ),
        pytest.param(
            'def fine(x: Low, /) -> Array: ...\nT = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="a param that JAX leaves None",
        ),
        pytest.param(
            "def fine(x: Low, /, **params: Any) -> Array | tq.Declined:\n"
            "    def inner() -> Any:\n"
            "        return tq.DECLINE\n"
            "    if params:\n"
            "        return tq.DECLINE\n"
            "    return x.materialize()\n"
            'T = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="declines at times",
        ),
        pytest.param(
            'def fine(x: Float[Low, "m n"], /) -> Float[Low, "n m"] | tq.Declined: ...\n'
            'T = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="may decline all but square matrices",
        ),
        pytest.param(
            'def fine(x: Float[Low, "m n"], y: Float[Array, ""], /) -> Float[Low, "m n"]: ...\n'
            'T = tq.HandlerTable("t", ops.mul.to(fine, commutative=True))\n',
            id="a scalar beside a matrix",
        ),
        pytest.param(
            "def fine(*operands: tq.ImplicitArray, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.any_primitive.to(lambda op, *x, **p: tq.DECLINE))\n',
            id="a handler that is a lambda",
        ),
    ],
)
def test_what_may_be_right_is_no_finding(package: Callable[..., Path], body: str) -> None:
    name = f"sample_fine_{abs(hash(body))}"
    package(name, rules=HEAD + body)
    assert check_packages(name).findings == ()


def test_a_group_s_handler_that_is_idle_for_a_part_is_but_noted(
    package: Callable[..., Path],
) -> None:
    body = (
        "def general(x: Low, /, **params: Any) -> Array: ...\n"
        "def rest(op: ops.UnaryOp, x: Low, /, **params: Any) -> Array: ...\n"
        'T = tq.HandlerTable("t", ops.cos.to(general, precedence=1), '
        "(ops.cos | ops.sin).to(rest))\n"
    )
    finding, _ = only(package, "sample_group", body)
    assert (finding.code, finding.severity) == ("unreachable", "note")


def test_two_packages_that_are_ambiguous_together_are_found_in_both(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_base",
        rules=HEAD
        + 'def left(x: Low, y: Float[Array, "m n"], /, **params: Any) -> Array: ...\n'
        + 'tq.install(tq.HandlerTable("base", ops.sub.to(left)))\n',
    )
    package(
        "sample_more",
        rules=HEAD
        + "from sample_base.rules import Low\n"
        + 'def right(x: Float[Low, "m n"], y: Array, /, **params: Any) -> Array: ...\n'
        + 'tq.install(tq.HandlerTable("more", ops.sub.to(right)))\n',
    )
    (finding,) = check_packages("sample_more").findings
    assert finding.code == "ambiguous"
    assert "left (" in finding.text
    assert tq.check("sample_base") == [finding]


def test_what_other_packages_do_wrong_is_not_listed(package: Callable[..., Path]) -> None:
    package("sample_wrong", rules=HEAD + HANDLERS["undeclared decline"][0])
    package("sample_right", rules=HEAD + "import sample_wrong.rules\n")
    assert check_packages("sample_right").findings == ()


def test_all_findings_of_all_modules_are_listed_sorted_by_place(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_many",
        a=HEAD + HANDLERS["bad shape, of jaxtyping"][0] + HANDLERS["swallowed param"][0],
        b=HEAD + HANDLERS["undeclared decline"][0],
    )
    found = check_packages("sample_many").findings
    assert [(Path(each.file).name, each.code) for each in found] == [
        ("a.py", "shape"),
        ("a.py", "ignored-param"),
        ("b.py", "undeclared-decline"),
    ]


def test_annotations_that_are_not_postponed_are_read_too(package: Callable[..., Path]) -> None:
    head = HEAD.replace("from __future__ import annotations\n", "")
    package("sample_eager", rules=head + HANDLERS["unbound axis of the result"][0])
    (finding,) = check_packages("sample_eager").findings
    assert (finding.line, finding.code) == (13, "unbound-axis")


def test_classes_and_handlers_made_in_functions_are_checked(package: Callable[..., Path]) -> None:
    body = (
        "def make() -> Any:\n"
        "    class Inner(tq.ImplicitArray):\n"
        '        x: Float[tq.ArrayValue, "n"]\n'
        "        def materialize(self) -> Array:\n"
        "            return self.xx\n"
        "    def bad(x: Inner, y: Low, /) -> Array: ...\n"
        "    return ops.sin.to(bad), Inner\n"
        "MADE = make()\n"
    )
    package("sample_made", rules=HEAD + body)
    found = check_packages("sample_made").findings
    assert [(each.line, each.code) for each in found] == [(18, "materialize"), (19, "arity")]


def test_the_line_of_a_decorated_handler_is_that_of_its_decorator(
    package: Callable[..., Path],
) -> None:
    body = (
        "import functools\n"
        "def plain(f: Any) -> Any:\n"
        "    @functools.wraps(f)\n"
        "    def wrapped(*args: Any, **params: Any) -> Any:\n"
        "        return f(*args, **params)\n"
        "    return wrapped\n"
        "@plain\n"
        "def bad(x: Low, y: Low, /) -> Array: ...\n"
        "T = ops.sin.to(bad)\n"
    )
    package("sample_decorated", rules=HEAD + body)
    (finding,) = check_packages("sample_decorated").findings
    assert (finding.line, finding.code) == (20, "arity")


def test_what_a_package_installs_when_imported_is_installed(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_installs",
        rules=HEAD
        + "def fine(x: Low, /) -> Array: ...\n"
        + 'tq.install(tq.HandlerTable("t", ops.sin.to(fine)))\n',
    )
    assert check_packages("sample_installs").findings == ()
    assert [rule.handler.name for rule in installed_table().rules] == ["fine"]


def test_check_asks_for_a_package_that_was_imported() -> None:
    with pytest.raises(tq.TypedQaxError) as caught:
        tq.check("not_imported")
    assert str(caught.value) == (
        "'not_imported' has not been imported, so there is nothing to check: import it before, or "
        "run `python -m typedqax check not_imported`"
    )


def test_check_gives_as_data_what_the_command_prints(package: Callable[..., Path]) -> None:
    package("sample_data", rules=HEAD + HANDLERS["undeclared decline"][0])
    printed = check_packages("sample_data").findings
    assert tq.check("sample_data") == list(printed)
    assert [each for each in tq.check() if "sample_data" in each.packages] == list(printed)


def test_the_ready_made_arrays_have_no_errors() -> None:
    assert [each for each in tq.check("typedqax") if each.severity == "error"] == []


def test_a_check_registers_nothing_for_later(package: Callable[..., Path]) -> None:
    package("sample_later", rules=HEAD + HANDLERS["duplicate"][0])
    check_packages("sample_later")
    with pytest.raises(tq.SignatureError):
        tq.ops.sin.to(int)  # type: ignore[type-var]  # refused again, outside of the check


def test_each_code_is_that_of_a_finding_that_is_tested() -> None:
    tested = {code for _, code, _, _ in (*HANDLERS.values(), *CLASSES.values())}
    assert tested | {"import"} == set(CODES)
