"""`MISTAKES.md` says what really happens, and every mistake in it is noticed by somebody."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest

from tests import mistakes_table
from tests.mistakes_table import FILES, PAGE, ROOT, SECTIONS, Mistake, page

# In a process of its own, without what conftest.py sets for JAX: as a user would see it.
RUN = (
    "import pickle, sys\n"
    "from tests.mistakes_table import mistakes\n"
    "sys.stdout.buffer.write(pickle.dumps(mistakes()))\n"
)


@pytest.fixture(scope="module")
def mistakes() -> list[Mistake]:
    """Every mistake, as its file has just been run."""
    done = subprocess.run([sys.executable, "-c", RUN], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    made: list[Mistake] = pickle.loads(done.stdout)
    return made


def test_the_page_says_what_happens(mistakes: list[Mistake]) -> None:
    same = PAGE.read_text() == page(mistakes)
    assert same, f"MISTAKES.md is not what happens: run python -m {mistakes_table.__name__}"


def test_there_are_more_than_forty_mistakes_each_in_a_section(mistakes: list[Mistake]) -> None:
    assert len(mistakes) == len(FILES) > 40
    assert {mistake.section for mistake in mistakes} == set(SECTIONS)
    assert len({mistake.title for mistake in mistakes}) == len(mistakes)


def test_every_mistake_is_noticed(mistakes: list[Mistake]) -> None:
    assert [mistake.path.name for mistake in mistakes if not any(mistake.said)] == []


def test_what_one_checker_sees_the_other_sees(mistakes: list[Mistake]) -> None:
    assert [m.path.name for m in mistakes if bool(m.said[0]) != bool(m.said[1])] == []


def test_what_no_checker_sees_is_raised_or_found_by_the_command(mistakes: list[Mistake]) -> None:
    blind = [m for m in mistakes if not m.said[0]]
    assert blind
    assert [m.path.name for m in blind if not any(m.said[2:])] == []


def test_the_page_is_linked_from_the_readme() -> None:
    assert "(MISTAKES.md)" in (ROOT / "README.md").read_text()


def test_the_page_on_checkers_counts_the_same_mistakes() -> None:
    seen = re.search(r"mypy --strict: (\d+), pyright: (\d+)", mistakes_table.PAGE.read_text())
    assert seen is not None
    mypy, pyright = seen.groups()
    page = (mistakes_table.ROOT / "CHECKERS.md").read_text()
    told = re.findall(r"^\| (mypy|pyright|ty|pyrefly)\b.* (\d+) of (\d+) \|$", page, re.MULTILINE)
    assert {of for _, _, of in told} == {mypy}
    assert {count for checker, count, _ in told if checker == "mypy"} == {mypy}
    assert {count for checker, count, _ in told if checker == "pyright"} == {pyright}
    assert f"those {mypy} of [MISTAKES.md](MISTAKES.md)" in page
