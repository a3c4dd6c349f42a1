"""The modules of packages: which are imported, and what is said when one cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mistakes import HANDLERS, HEAD
from typedqax._check import check_packages
from typedqax._errors import UsageError


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        pytest.param("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax", id="syntax"),
        pytest.param("x = 1\n\nx.y\n", 3, "AttributeError: 'int' object has no", id="error"),
        pytest.param("import not_there_at_all\n", 1, "ModuleNotFoundError: No", id="missing"),
        pytest.param("raise SystemExit(3)\n", 1, "SystemExit: 3", id="exit"),
        pytest.param("import sys\nsys.exit('no')\n", 2, "SystemExit: no", id="exit with a text"),
        pytest.param(
            "raise ExceptionGroup('two', [ValueError(), TypeError()])\n", 1,
            "ExceptionGroup: two (2 sub-exceptions)", id="group",
        ),
        pytest.param(
            "class Stop(BaseException): ...\nraise Stop('now')\n", 2, "Stop: now", id="base",
        ),
        pytest.param(
            "from typedqax import ops\nops.dot_generl\n", 2,
            "AttributeError: typedqax.ops has no 'dot_generl'; did you mean ops.dot_general",
            id="ours",
        ),
        pytest.param(
            "def f(n):\n    return f(n + 1)\nf(0)\n", 2, "RecursionError: maximum recursion",
            id="recursion",
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
    assert finding.text.endswith("; nothing else in it can be checked")
    assert checked.modules == 3


def test_the_line_of_the_package_is_named_when_another_one_fails(
    package: Callable[..., Path],
) -> None:
    package("sample_inner", rules="def f():\n    raise ValueError('no')\n")
    package("sample_outer", rules="\nfrom sample_inner.rules import f\nf()\n")
    (finding,) = check_packages("sample_outer").findings
    assert (Path(finding.file).parent.name, finding.line) == ("sample_outer", 3)


def test_one_failure_that_several_modules_meet_is_one_finding(
    package: Callable[..., Path],
) -> None:
    folder = package("sample_met", a="\nimport not_there_at_all\n", b="import sample_met.a\n")
    (finding,) = check_packages("sample_met").findings
    assert (finding.file, finding.line) == (str(folder / "a.py"), 2)
    assert finding.text.startswith("importing `sample_met.a` (and so `sample_met.b`) fails: ")


def test_a_circular_import_is_a_finding_where_it_closes(package: Callable[..., Path]) -> None:
    package(
        "sample_circle",
        a="from sample_circle.b import y\nx = 1\n",
        b="\nfrom sample_circle.a import x\ny = 1\n",
    )
    found = check_packages("sample_circle").findings
    assert [(Path(each.file).name, each.line, each.code) for each in found] == [
        ("a.py", 1, "import"),
        ("b.py", 2, "import"),
    ]
    assert "ImportError: cannot import name" in found[0].text


def test_a_package_whose_own_import_fails_is_one_finding(package: Callable[..., Path]) -> None:
    folder = package("sample_top", __init__="\n1 / 0\n", rules=HEAD)
    checked = check_packages("sample_top")
    (finding,) = checked.findings
    assert (finding.file, finding.line) == (str(folder / "__init__.py"), 2)
    assert finding.text == (
        "importing `sample_top` fails: ZeroDivisionError: division by zero; "
        "nothing else in it can be checked"
    )
    assert checked.modules == 1


def test_what_is_declared_before_an_import_fails_is_found(package: Callable[..., Path]) -> None:
    package("sample_before", rules=HEAD + HANDLERS["too few operands"][0] + "1 / 0\n")
    found = check_packages("sample_before").findings
    assert [(each.line, each.code) for each in found] == [(14, "arity"), (16, "import")]


def test_a_main_module_is_not_run(package: Callable[..., Path]) -> None:
    package("sample_main", __main__="raise SystemExit(1)\n", rules=HEAD)
    checked = check_packages("sample_main")
    assert (checked.findings, checked.modules) == ((), 2)


def test_the_modules_of_a_namespace_package_are_checked(package: Callable[..., Path]) -> None:
    folder = package("sample_space", rules=HEAD + HANDLERS["too few operands"][0])
    folder.joinpath("__init__.py").unlink()
    inner = folder / "inner"
    inner.mkdir()
    inner.joinpath("more.py").write_text(HEAD + HANDLERS["undeclared decline"][0])
    folder.joinpath("data").mkdir()
    checked = check_packages("sample_space")
    assert [(Path(each.file).name, each.code) for each in checked.findings] == [
        ("more.py", "undeclared-decline"),
        ("rules.py", "arity"),
    ]
    assert checked.modules == 4


def test_one_module_of_a_package_is_checked_alone(package: Callable[..., Path]) -> None:
    package(
        "sample_part",
        a=HEAD + HANDLERS["too few operands"][0],
        b=HEAD + HANDLERS["undeclared decline"][0],
    )
    checked = check_packages("sample_part.b")
    assert [each.code for each in checked.findings] == ["undeclared-decline"]
    assert checked.modules == 1


def test_a_module_without_a_package_is_checked(
    package: Callable[..., Path], tmp_path: Path
) -> None:
    package("sample_beside")
    tmp_path.joinpath("sample_single.py").write_text(HEAD + HANDLERS["too few operands"][0])
    (finding,) = check_packages("sample_single").findings
    assert (finding.file, finding.line) == (str(tmp_path / "sample_single.py"), 14)


def test_an_unknown_package_is_one_error() -> None:
    with pytest.raises(UsageError, match="no package or module 'not_there_at_all'"):
        check_packages("not_there_at_all")
