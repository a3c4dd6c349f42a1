"""The check of whole programs: every kind of finding, the command, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import typedqax as tq
from typedqax import __main__ as command
from typedqax._check import Checked, WrongUsageError, check_packages
from typedqax._findings import Finding
from typedqax._installed import nothing_installed

Check = Callable[..., list[Finding]]

HEAD = """\
from __future__ import annotations
from typing import Any
from jax import Array
from jaxtyping import Float
import typedqax as tq
from typedqax import ops

class Low(tq.ImplicitArray):
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    def materialize(self) -> Float[Array, "m n"]:
        return self.a @ self.b.T

"""


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    before = set(sys.modules)
    with nothing_installed():
        yield
    for name in set(sys.modules) - before:
        if name.startswith("sample"):
            del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a package's files; a file's text follows the head that all have."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def write(name: str, **files: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file, text in {"__init__": "", **files}.items():
            folder.joinpath(f"{file}.py").write_text(text)
        return folder

    return write


def lines_of(checked: Checked) -> list[str]:
    return command.report(checked).splitlines()


def only(package: Callable[..., Path], name: str, body: str) -> tuple[Finding, str]:
    """The one finding about a package of one module, and the line of the module it is at."""
    package(name, rules=HEAD + body)
    checked = check_packages(name)
    assert [each.code for each in checked.findings] == [checked.findings[0].code]
    (finding,) = checked.findings
    assert Path(finding.file).name == "rules.py"
    return finding, (HEAD + body).splitlines()[finding.line - 1].strip()


# --- each kind of finding ------------------------------------------------------------------------

HANDLERS = {
    "bad shape": (
        'def bad(x: Float[Low, "... m ..."], /) -> Array: ...\nT = ops.sin.to(bad)\n',
        "signature",
        "def bad(",
        "more than once",
    ),
    "unbound axis of the result": (
        'def bad(x: Float[Low, "m n"], /) -> Float[Low, "m k"]: ...\nT = ops.sin.to(bad)\n',
        "signature",
        "def bad(",
        "the axis 'k' of the result Float[Low, \"m k\"] is in no operand",
    ),
    "swallowed param": (
        "def bad(x: Low, /, **_: Any) -> Array: ...\nT = ops.transpose.to(bad)\n",
        "signature",
        "def bad(",
        "it ignores `permutation` of `transpose`, which decides the numbers",
    ),
    "unknown param, required": (
        "def bad(x: Low, /, *, permutatoin: Any) -> Array: ...\nT = ops.transpose.to(bad)\n",
        "signature",
        "def bad(",
        "`transpose` has no param `permutatoin` on this JAX (it has: permutation)",
    ),
    "unknown param, with a default": (
        (
            "def bad(x: Low, /, *, permutatoin: Any = (1, 0), **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.transpose.to(bad))\n'
        ),
        "unknown-param",
        "def bad(",
        "`bad` names the param `permutatoin`, which `transpose` never gives; misspelt?",
    ),
    "no call can reach it": (
        "def bad(x: Array, /) -> Array: ...\nT = ops.sin.to(bad)\n",
        "signature",
        "def bad(",
        "no call of `sin` can reach it",
    ),
    "what is no function": (
        "T = ops.sin.to(Low)\n",
        "signature",
        "T = ops.sin.to(Low)",
        "a handler is a plain function",
    ),
    "ambiguous": (
        (
            'def left(x: Low, y: Float[Array, "n"], /, **params: Any) -> Array: ...\n'
            'def right(x: Float[Low, "n"], y: Array, /, **params: Any) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.sub.to(left), ops.sub.to(right))\n'
        ),
        "ambiguous",
        "def right(",
        "as in sub(Low ",
    ),
    "duplicate": (
        (
            "def one(x: Low, /, **params: Any) -> Array: ...\n"
            "def two(x: Low, /, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.sin.to(one), ops.sin.to(two))\n'
        ),
        "duplicate",
        "def two(",
        "same operands as one",
    ),
    "refused when installed": (
        (
            "def one(x: Low, /, **params: Any) -> Array: ...\n"
            "def two(x: Low, /, **params: Any) -> Array: ...\n"
            'tq.install(tq.HandlerTable("t", ops.sin.to(one)))\n'
            'tq.install(tq.HandlerTable("u", ops.sin.to(two)))\n'
        ),
        "duplicate",
        "def two(",
        "same operands as one",
    ),
    "decorated": (
        (
            '@tq.primitive_handler("sine")\n'
            "def bad(primitive: Any, x: Low, /, **params: Any) -> Array: ...\n"
        ),
        "signature",
        '@tq.primitive_handler("sine")',
        "JAX has no primitive 'sine'",
    ),
    "unreachable": (
        (
            "def general(x: Low, /, **params: Any) -> Array: ...\n"
            'def never(x: Float[Low, "n n"], /, **params: Any) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.cos.to(general, precedence=1), ops.cos.to(never))\n'
        ),
        "unreachable",
        "def never(",
        "`never` never runs for `cos`: every call that it takes is taken by `general`",
    ),
    "one-sided": (
        (
            "class Small(Low): ...\n"
            "def general(x: Low, y: Low, /, **params: Any) -> Array: ...\n"
            "def special(x: Low, y: Small, /, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.sub.to(general), ops.sub.to(special))\n'
        ),
        "one-sided",
        "def special(",
        "`special` has no counterpart for the other order: sub(Small ",
    ),
    "undeclared decline": (
        (
            "def bad(x: Low, /, **params: Any) -> Array:\n"
            "    return x.materialize() if params else tq.DECLINE\n"
            'T = tq.HandlerTable("t", ops.sin.to(bad))\n'
        ),
        "undeclared-decline",
        "return x.materialize()",
        "`bad` returns tq.DECLINE, which its return annotation Array does not have",
    ),
    "param that is declined when it is there": (
        'def bad(x: Low, /) -> Array: ...\nT = tq.HandlerTable("t", ops.sin.to(bad))\n',
        "declined-param",
        "def bad(",
        "`bad` declines every call in which `accuracy` is not None",
    ),
    "class that joins two kinds": (
        (
            "class Other(tq.ImplicitArray):\n"
            "    def materialize(self) -> Array: ...\n"
            "def one(x: Low, /, **params: Any) -> Array: ...\n"
            "def two(x: Other, /, **params: Any) -> Array: ...\n"
            'tq.install(tq.HandlerTable("t", ops.sin.to(one), ops.sin.to(two)))\n'
            "class Both(Low, Other): ...\n"
        ),
        "ambiguous",
        "def two(",
        "as in sin(Both ",
    ),
}


@pytest.mark.parametrize(("body", "code", "line", "text"), HANDLERS.values(), ids=HANDLERS.keys())
def test_what_is_wrong_with_handlers_is_found_at_its_line(
    package: Callable[..., Path], body: str, code: str, line: str, text: str
) -> None:
    finding, at = only(package, f"sample_{code.replace('-', '_')}_{abs(hash(body))}", body)
    assert finding.code == code
    assert at.startswith(line)
    assert text in finding.text
    assert finding.severity == ("note" if code == "declined-param" else "error")


CLASSES = {
    "bad shape in a field": (
        '    x: Float[tq.ArrayValue, "... m ..."]\n    def materialize(self) -> Array: ...\n',
        "field",
        "x: Float",
        "the annotation of `Bad.x`: ValueError: Cannot use variadic specifiers",
    ),
    "name that does not exist": (
        (
            "    x: Float[tq.ArrayValue, 'm']\n"
            "    y: Flaot[tq.ArrayValue, 'm']\n"
            "    def materialize(self) -> Array: ...\n"
        ),
        "field",
        "",
        "an annotation names 'Flaot', which does not exist there",
    ),
    "axes that never agree": (
        (
            '    x: Float[tq.ArrayValue, "m-n"]\n'
            '    y: Float[tq.ArrayValue, "n-m-1"]\n'
            '    z: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array: ...\n"
        ),
        "field",
        "class Bad",
        "the axes of the fields of `Bad` never agree: no sizes fit x: Float",
    ),
    "axis of materialize that no field has": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            '    def materialize(self) -> Float[Array, "m k"]:\n'
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        "the axis 'k' of its result Float[Array, \"m k\"] is in no field",
    ),
    "axes of materialize exchanged": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            '    def materialize(self) -> Float[Array, "n m"]:\n'
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        "gives Array f32[2,3] for x=Array f32[2,3], and is annotated",
    ),
    "materialize that declines": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array | tq.Declined:\n"
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        "returns one array, and never declines",
    ),
    "materialize annotated with what is no array": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            '    def materialize(self) -> Float[Array, "... n ..."]:\n'
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        "its return annotation: ValueError: Cannot use variadic",
    ),
}


@pytest.mark.parametrize(("body", "code", "line", "text"), CLASSES.values(), ids=CLASSES.keys())
def test_what_is_wrong_with_a_class_is_found_at_its_line(
    package: Callable[..., Path], body: str, code: str, line: str, text: str
) -> None:
    name = f"sample_class_{abs(hash(body))}"
    finding, at = only(package, name, f"class Bad(tq.ImplicitArray):\n{body}")
    assert finding.code == code
    assert at.startswith(line)
    assert text in finding.text


def test_the_handler_that_settles_an_ambiguity_is_told(package: Callable[..., Path]) -> None:
    finding, _ = only(package, "sample_meet", HANDLERS["ambiguous"][0])
    assert finding.text.endswith(
        'add a handler for (x: Float[Low, "_"], y: Float[Array, "n"]), or give one a precedence'
    )


def test_every_call_that_a_handler_must_decline_is_an_error(package: Callable[..., Path]) -> None:
    package(
        "sample_always",
        rules=HEAD
        + "def bad(x: Low, y: Array, /) -> Array: ...\n"
        + 'T = tq.HandlerTable("t", ops.dot_general.to(bad))\n',
    )
    checked = check_packages("sample_always")
    assert [each.code for each in checked.findings if each.severity == "error"] == [
        "always-declines"
    ]
    assert "always has the param `dimension_numbers`" in checked.findings[0].text


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


# --- packages ------------------------------------------------------------------------------------


def test_two_packages_that_are_ambiguous_together_are_found_in_both(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_base",
        rules=HEAD
        + 'def left(x: Low, y: Float[Array, "n"], /, **params: Any) -> Array: ...\n'
        + 'tq.install(tq.HandlerTable("base", ops.sub.to(left)))\n',
    )
    package(
        "sample_more",
        rules=HEAD
        + "from sample_base.rules import Low\n"
        + 'def right(x: Float[Low, "n"], y: Array, /, **params: Any) -> Array: ...\n'
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
        a=HEAD + HANDLERS["bad shape"][0] + HANDLERS["swallowed param"][0],
        b=HEAD + HANDLERS["undeclared decline"][0],
    )
    found = check_packages("sample_many").findings
    assert [(Path(each.file).name, each.code) for each in found] == [
        ("a.py", "signature"),
        ("a.py", "signature"),
        ("b.py", "undeclared-decline"),
    ]


# --- imports that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        pytest.param("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax", id="syntax"),
        pytest.param("x = 1\n\nx.y\n", 3, "AttributeError: 'int' object has no", id="error"),
        pytest.param("import not_there_at_all\n", 1, "ModuleNotFoundError: No", id="missing"),
        pytest.param("raise SystemExit(3)\n", 1, "SystemExit: 3", id="exit"),
        pytest.param(
            "import typedqax as tq\ntq.HandlerTable('t', len)\n", 2, "TypedQaxError: table 't'",
            id="ours",
        ),
        pytest.param(
            "import typedqax as tq\nclass Bad(tq.ImplicitArray):\n    sum: int\n"
            "    def materialize(self): ...\nBad(1)\n", 2, "TypeError: ", id="class",
        ),
    ],
)  # fmt: skip
def test_an_import_that_fails_is_a_finding_at_its_line(
    package: Callable[..., Path], source: str, line: int, text: str
) -> None:
    name = f"sample_import_{abs(hash(source))}"
    folder = package(name, broken=source, fine="")
    checked = check_packages(name)
    (finding,) = checked.findings
    assert (finding.file, finding.line) == (str(folder / "broken.py"), line)
    assert finding.code == "import"
    assert f"importing `{name}.broken` fails: {text}" in finding.text
    assert checked.modules == 3


def test_the_line_of_the_package_is_named_when_another_one_fails(
    package: Callable[..., Path],
) -> None:
    package("sample_inner", rules="def f():\n    raise ValueError('no')\n")
    package("sample_outer", rules="\nfrom sample_inner.rules import f\nf()\n")
    (finding,) = check_packages("sample_outer").findings
    assert (Path(finding.file).parent.name, finding.line) == ("sample_outer", 3)


# --- the command ---------------------------------------------------------------------------------


def test_the_command_prints_as_mypy_does_and_exits_with_1(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_out", rules=HEAD + HANDLERS["unbound axis of the result"][0])
    assert command.main(["check", "sample_out"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        (
            "sample_out/rules.py:14: error: `bad`: the axis 'k' of the result Float[Low, \"m k\"] "
            "is in no operand: misspelt, or write `_` (`...` for any number of axes)  [signature]"
        ),
        "Found 1 error in 1 file (checked 2 modules)",
    ]
    assert err == ""


def test_the_command_exits_with_0_when_there_are_only_notes(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_note", rules=HEAD + HANDLERS["param that is declined when it is there"][0])
    assert command.main(["check", "sample_note"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("sample_note/rules.py:14: note: `bad` declines every call")
    assert out[1] == "Success: no errors found in 2 modules (1 note)"


def test_a_clean_package_is_a_success(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_clean", rules=HEAD)
    assert command.main(["check", "sample_clean"]) == 0
    assert capsys.readouterr().out == "Success: no errors found in 2 modules\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param([], "usage: python -m typedqax check PKG", id="nothing"),
        pytest.param(["chekc", "x"], "typedqax: 'chekc' is no command; usage: ", id="command"),
        pytest.param(["check"], "typedqax: no package is given; usage: ", id="no package"),
        pytest.param(["check", "--all"], "typedqax: '--all' is no option; usage: ", id="option"),
        pytest.param(
            ["check", "not_there_at_all"],
            "typedqax: there is no package or module 'not_there_at_all' on the path",
            id="unknown",
        ),
        pytest.param(
            ["check", "json.not_there"], "typedqax: there is no module 'json.not_there'", id="inner"
        ),
        pytest.param(
            ["check", "some/rules.py"],
            "typedqax: 'some/rules.py' is no module's name; did you mean 'some.rules'?\n",
            id="path",
        ),
        pytest.param(
            ["check", "./some/"],
            "typedqax: './some/' is no module's name; did you mean 'some'?\n",
            id="folder",
        ),
        pytest.param(
            ["check", "../some"], "typedqax: '../some' is no module's name\n", id="not below"
        ),
        pytest.param(
            ["check", "colorsys.py"],
            "typedqax: there is no module 'colorsys.py'; did you mean 'colorsys'?\n",
            id="file of a module",
        ),
        pytest.param(
            ["check", "not_there_at_all.py"],
            "typedqax: there is no package or module 'not_there_at_all' on the path; "
            "did you mean 'not_there_at_all'?\n",
            id="file of no module",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(text)
    assert err.count("\n") == 1


def test_the_ready_made_arrays_have_no_errors() -> None:
    assert [each for each in tq.check("typedqax") if each.severity == "error"] == []


def test_a_check_registers_nothing_for_later(package: Callable[..., Path]) -> None:
    package("sample_later", rules=HEAD + HANDLERS["duplicate"][0])
    check_packages("sample_later")
    with pytest.raises(tq.SignatureError):
        tq.ops.sin.to(int)  # type: ignore[type-var]  # refused again, outside of the check


def test_an_unknown_package_is_one_error() -> None:
    with pytest.raises(WrongUsageError, match="no package or module 'not_there_at_all'"):
        check_packages("not_there_at_all")


def test_the_command_runs_as_a_module(package: Callable[..., Path]) -> None:
    folder = package("sample_run", rules=HEAD + HANDLERS["duplicate"][0])
    done = subprocess.run(
        [sys.executable, "-m", "typedqax", "check", "sample_run"],
        cwd=folder.parent,
        env={"PYTHONPATH": str(Path(tq.__file__).parent.parent), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.endswith("Found 1 error in 1 file (checked 2 modules)\n")
