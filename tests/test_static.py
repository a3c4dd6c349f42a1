"""What mypy and pyright say of users' code: silence on good code, the marked mistakes on bad code.

Every file in ``tests/static``, and the README's code as one file, is checked by both, all in one
process each; none is run here (``tests/test_mistakes_table.py`` runs those in ``mistakes``). A
wrong line carries what each checker must say of it, on the line itself or in comment lines above
it::

    # E[mypy]: arg-type: has incompatible type "str"
    # E[pyright]: reportArgumentType: "str" is not assignable to "Array"
    lora = Lora("w")

that is, the error's code and a telling part of its message. A mistake that one of the two cannot
see says so: ``# E[pyright]: none: why``. Anything else that is said, anywhere, fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from tests.postponed import postponed
from tests.static_marks import Mark, marks_in

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "tests" / "static"
FILES = sorted(STATIC.rglob("*.py"))

Checker: TypeAlias = Literal["mypy", "pyright"]
CHECKERS: tuple[Checker, ...] = ("mypy", "pyright")


@dataclass(frozen=True, slots=True)
class Finding:
    """One error that a checker reports."""

    line: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: [{self.code}] {self.message}"


Findings: TypeAlias = dict[Path, list[Finding]]


def readme_as_a_file(home: Path) -> Path:
    """The Python blocks of the README in one file, each on the lines it has there."""
    page = (ROOT / "README.md").read_text().splitlines()
    path, language = home.resolve() / "readme.py", ""
    for i, text in enumerate(page):
        fence = text.startswith("```")
        page[i] = text if language.startswith("python") and not fence else ""
        language = ("" if language else text[3:] or "text") if fence else language
    path.write_text("\n".join(page) + "\n")
    return path


def mypy_findings(files: list[Path], cache: Path, packages: Path = STATIC) -> Findings:
    """What ``mypy --strict`` says, file by file; `packages` is a folder to import from, too."""
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache)]
    output = ["--follow-imports=silent", "--output=json", "--no-error-summary"]
    done = subprocess.run(
        [*command, *output, *map(str, files)],
        cwd=ROOT,
        # Where user_package is imported from.
        env={**os.environ, "MYPYPATH": os.pathsep.join({str(STATIC), str(packages)})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        pytest.fail(f"mypy could not check tests/static:\n{done.stdout}{done.stderr}")
    found: Findings = {path: [] for path in files}
    for text in done.stdout.splitlines():
        said = json.loads(text)
        if said["severity"] == "error":
            path = (ROOT / said["file"]).resolve()
            message = " ".join([said["message"], *filter(None, [said["hint"]])])
            found[path].append(Finding(said["line"], said["code"], message))
    return found


def pyright_findings(files: list[Path], home: Path, packages: Path = STATIC) -> Findings:
    """What pyright (standard; strict where a file asks for it) says, file by file."""
    # A folder of its own: pyright takes the settings it finds in its working directory.
    (home / "pyrightconfig.json").write_text(
        json.dumps(
            {
                # pyright ignores absolute paths here.
                "include": [os.path.relpath(path, home.resolve()) for path in files],
                "extraPaths": [str(ROOT), str(STATIC), str(packages)],
                "stubPath": str(ROOT / "stubs"),
                "pythonVersion": "3.11",
                "typeCheckingMode": "standard",
            }
        )
    )
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(home)],
        cwd=home,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        pytest.fail(
            "pyright did not run. It needs Node.js: installing the extra `dev` brings both, as "
            f"`pyright[nodejs]`. It said:\n{done.stdout}{done.stderr}"
        )
    if report["summary"]["filesAnalyzed"] != len(files):
        pytest.fail(f"pyright saw {report['summary']['filesAnalyzed']} of {len(files)} files")
    found: Findings = {path: [] for path in files}
    for said in report["generalDiagnostics"]:
        if said["severity"] != "information":
            line = said["range"]["start"]["line"] + 1
            finding = Finding(line, said.get("rule", "syntax"), said["message"])
            found[Path(said["file"]).resolve()].append(finding)
    return found


@pytest.fixture(scope="session")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's code, as a file."""
    return readme_as_a_file(tmp_path_factory.mktemp("readme"))


@pytest.fixture(scope="session")
def later(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The modules of the user package with postponed annotations."""
    package = postponed(tmp_path_factory.mktemp("later").resolve(), "later_package")
    return sorted(package.glob("*.py"))


@pytest.fixture(scope="session")
def findings(
    readme: Path,
    later: list[Path],
    checker_cache: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[Checker, Findings]:
    """What each checker says of each file."""
    files, packages = [*FILES, readme, *later], later[0].parent.parent
    return {
        "mypy": mypy_findings(files, checker_cache("mypy"), packages),
        "pyright": pyright_findings(files, tmp_path_factory.mktemp("pyright"), packages),
    }


def differences(said: list[Finding], marked: list[Mark]) -> list[str]:
    """Where what was said and what is marked differ, one line for each."""
    missing: list[str] = []
    left = list(said)
    for mark in marked:
        for finding in left:
            same_place = (finding.line, finding.code) == (mark.line, mark.code)
            if same_place and mark.telling in finding.message:
                left.remove(finding)
                break
        else:
            missing.append(f"not said:   {mark}")
    return missing + [f"not marked: {finding}" for finding in left]


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(STATIC)) for path in FILES])
def test_a_checker_says_exactly_what_is_marked(
    path: Path, checker: Checker, findings: dict[Checker, Findings]
) -> None:
    marks = [m for m in marks_in(path.read_text()) if m.checker == checker and m.code != "none"]
    wrong = differences(findings[checker][path], marks)
    assert not wrong, "\n".join([f"{checker} on {path.relative_to(ROOT)}:", *wrong])


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_is_silent_on_the_readme(
    checker: Checker, readme: Path, findings: dict[Checker, Findings]
) -> None:
    assert [f"README.md, {finding}" for finding in findings[checker][readme]] == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_is_silent_where_annotations_are_postponed(
    checker: Checker, later: list[Path], findings: dict[Checker, Findings]
) -> None:
    said = [f"{path.name}, {each}" for path in later for each in findings[checker][path]]
    assert said == []


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(STATIC)) for path in FILES])
def test_a_wrong_line_is_marked_for_both_checkers(path: Path) -> None:
    marks = marks_in(path.read_text())
    lines = {checker: {m.line for m in marks if m.checker == checker} for checker in CHECKERS}
    assert {m.checker for m in marks} <= set(CHECKERS)
    assert lines["mypy"] == lines["pyright"]


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.parent == STATIC],
    ids=lambda path: path.name,
)
def test_a_file_says_what_holds_or_what_is_wrong(path: Path) -> None:
    source = path.read_text()
    bad = path.stem.endswith("_bad")
    assert bool(marks_in(source)) == bad, "files with mistakes are named *_bad.py"
    assert bad or "assert_type(" in source, "a good file asserts types"


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        pytest.param(
            "x: int = 'a'  # E[mypy]: assignment: has type  # E[pyright]: none: blind\n",
            [Mark("mypy", 1, "assignment", "has type"), Mark("pyright", 1, "none", "blind")],
            id="beside the code",
        ),
        pytest.param(
            "def f() -> None:\n    # E[mypy]: arg-type: a: b\n\n    g(\n        1,\n    )\n",
            [Mark("mypy", 4, "arg-type", "a: b")],
            id="above the code",
        ),
        pytest.param("x = '# E[mypy]: a: b'\n", [], id="not in a string"),
    ],
)
def test_a_mark_belongs_to_its_line_or_the_next_one(source: str, marks: list[Mark]) -> None:
    assert marks_in(source) == marks


@pytest.mark.parametrize(
    "source", ["f()  # E[mypy] arg-type\n", "f()\n# E[mypy]: arg-type: late\n"], ids=repr
)
def test_a_mark_that_would_go_unread_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="mark"):
        marks_in(source)


@pytest.mark.parametrize(
    ("said", "marked", "wrong"),
    [
        pytest.param([(1, "a", "xyz")], [(1, "a", "y")], [], id="as marked"),
        pytest.param([], [(1, "a", "y")], ["not said:   line 1: [a] ...y..."], id="silent"),
        pytest.param([(1, "a", "xyz")], [], ["not marked: line 1: [a] xyz"], id="unmarked"),
        pytest.param(
            [(1, "a", "xyz"), (1, "a", "xyz")],
            [(1, "a", "y")],
            ["not marked: line 1: [a] xyz"],
            id="once too often",
        ),
        pytest.param(
            [(1, "a", "xyz")],
            [(1, "a", "q")],
            ["not said:   line 1: [a] ...q...", "not marked: line 1: [a] xyz"],
            id="another message",
        ),
    ],
)
def test_what_is_said_and_what_is_marked_are_compared_exactly(
    said: list[tuple[int, str, str]], marked: list[tuple[int, str, str]], wrong: list[str]
) -> None:
    marks = [Mark("mypy", *parts) for parts in marked]
    assert differences([Finding(*parts) for parts in said], marks) == wrong
