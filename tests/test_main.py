"""The command: what it prints, to where, and with which exit status."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import typedqax as tq
from tests.mistakes import HANDLERS, HEAD
from tests.processor_time import takes_less_than
from typedqax import __main__ as command
from typedqax._findings import CODES


def test_the_command_prints_as_mypy_does_and_exits_with_1(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_out", rules=HEAD + HANDLERS["unbound axis of the result"][0])
    assert command.main(["check", "sample_out"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        (
            "sample_out/rules.py:14: error: `bad`: the axis 'k' of the result Float[Low, \"m k\"] "
            "is in no operand: misspelt, or write `_` (`...` for any number of axes)  "
            "[unbound-axis]"
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


def test_warnings_and_notes_are_counted_beside_errors(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    warned = HANDLERS["handler of a base that stands for something else"][0]
    noted = HANDLERS["param that is declined when it is there"][0]
    package("sample_warned", rules=HEAD + warned, more=HEAD + noted)
    assert command.main(["check", "sample_warned"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("sample_warned/rules.py:14: warning: `Bad` overrides the")
    assert out[2] == "Success: no errors found in 3 modules (1 warning, 1 note)"
    package("sample_worse", rules=HEAD + warned, more=HEAD + HANDLERS["bad shape, of ours"][0])
    assert command.main(["check", "sample_worse"]) == 1
    total = capsys.readouterr().out.splitlines()[-1]
    assert total == "Found 1 error in 1 file and 1 warning (checked 3 modules)"


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


def test_what_a_module_prints_is_no_part_of_the_output(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_prints", rules="print('hello')\n")
    assert command.main(["check", "sample_prints"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("Success: no errors found in 2 modules\n", "hello\n")


def test_an_interrupted_check_says_where_it_was(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_stopped", rules="raise KeyboardInterrupt\n")
    assert command.main(["check", "sample_stopped"]) == 130
    assert capsys.readouterr().err == (
        "typedqax: interrupted while importing sample_stopped.rules\n"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["check", "--help"]], ids=" ".join)
def test_help_lists_every_code(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("usage: python -m typedqax check PKG [PKG...]\n\nImports every module")
    listed = out.partition("codes:\n")[2]
    assert re.findall(r"^    ([a-z-]+)  +\w", listed, re.MULTILINE) == sorted(CODES)


def run(folder: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a user runs it."""
    return subprocess.run(
        [sys.executable, *options, "-m", "typedqax", "check", name],
        cwd=folder,
        env={"PYTHONPATH": str(Path(tq.__file__).parent.parent), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_runs_as_a_module_without_asserts(package: Callable[..., Path]) -> None:
    folder = package("sample_run", rules=HEAD + HANDLERS["duplicate"][0])
    done = run(folder.parent, "sample_run", "-O")
    assert done.returncode == 1
    assert done.stdout.endswith("Found 1 error in 1 file (checked 2 modules)\n")


def test_a_small_package_takes_less_than_three_seconds_of_a_processor(
    package: Callable[..., Path],
) -> None:
    folder = package("sample_small", rules=HEAD)

    def check() -> None:
        assert run(folder.parent, "sample_small").returncode == 0

    assert takes_less_than(3, check)
