"""The README is true: its code runs and prints what it says, its commands and links exist.

Python blocks run in order and share their names, as in one notebook. A block that prints, warns or
raises is followed by a block ``text`` with exactly that: what it prints, then a warning or the
error as ``Name: text``. The first word after ``python`` names the file that the block stands for
in messages, with lines of its own; without one it is README.md, with the lines of README.md.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import re
import shlex
import sys
import tomllib
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import pytest
from jaxtyping import Float, Float32, Int

import typedqax as tq
from typedqax._handler import Handler
from typedqax._relations import is_subset, overlap
from typedqax._signature import Signature

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted(ROOT.glob("*.md"))


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the rest of its first line, and its text."""

    language: str
    info: str
    line: int
    text: str
    expected: str | None

    def code(self) -> types.CodeType:
        """The block compiled under the name and the lines that messages show."""
        name, before = (self.info, 0) if self.info else ("README.md", self.line)
        lines = ["\n"] * before + self.text.splitlines(keepends=True)
        linecache.cache[name] = (len(self.text), None, lines, name)
        return compile("".join(lines), name, "exec", dont_inherit=True)


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page; a ``text`` block belongs to a Python block right before it."""
    found: list[Block] = []
    fenced = re.compile(r"^```(\w*)[ ]*([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    matches = list(fenced.finditer(page))
    for i, match in enumerate(matches):
        after = matches[i + 1] if i + 1 < len(matches) else None
        follows = after is not None and not page[match.end() : after.start()].strip()
        shown = after[3] if after is not None and follows and after[1] == "text" else None
        line = page.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2].strip(), line, match[3], shown))
    return found


def output_of(code: types.CodeType, module: types.ModuleType) -> str:
    """What running `code` in `module` prints, then the warnings it gives, then its error."""
    printed = io.StringIO()
    error: list[str] = []
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            exec(code, module.__dict__)
        except Exception as raised:  # noqa: BLE001  # whatever it is, the README has to show it
            error.append(f"{type(raised).__name__}: {raised}\n")
    warned = [f"{warning.category.__name__}: {warning.message}\n" for warning in caught]
    return "".join([printed.getvalue(), *warned, *error])


def commands_of(page: str) -> list[str]:
    """The commands of a page's console blocks, in order."""
    consoles = [block for block in blocks_of(page) if block.language in ("console", "bash", "sh")]
    lines = [line for block in consoles for line in block.text.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module for the README's names, which type hints of its classes can be looked up in."""
    module = types.ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    monkeypatch.setenv("COLUMNS", "100")  # tables fit the terminal that they are printed in
    return module


@pytest.mark.lenient_promotion  # as a user's process is, who has set nothing
def test_every_python_block_does_what_the_readme_says(notebook: types.ModuleType) -> None:
    for block in blocks_of(README):
        if block.language == "python":
            output = output_of(block.code(), notebook)
            assert output == (block.expected or ""), f"README.md, line {block.line}"


def test_every_block_of_the_readme_is_checked() -> None:
    languages = {(block.language, block.line) for block in blocks_of(README)}
    known = {"python", "text", "console"}
    assert [line for language, line in languages if language not in known] == []


def test_an_output_block_stands_right_after_its_code() -> None:
    blocks = blocks_of(README)
    shown = [block.expected for block in blocks if block.language == "python"]
    assert [b.line for b in blocks if b.language == "text" and b.text not in shown] == []


def test_the_readme_starts_with_the_main_job_and_the_tests() -> None:
    assert commands_of(README)[:2] == [
        'python -m pip install -e ".[examples]" && python examples/lora_gpt2.py',
        'python -m pip install -e ".[dev]" && python -m pytest -W error',
    ]


@pytest.mark.parametrize(
    "command", [part for line in commands_of(README) for part in line.split(" && ")]
)
def test_what_a_command_of_the_readme_names_exists(command: str) -> None:
    words = shlex.split(command, comments=True)
    assert words[0] == "python", f"not a command of this project: {command}"
    if words[1:4] == ["-m", "pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = re.findall(r"\[([\w,]+)\]", command)
        wanted = {name for group in extras for name in group.split(",")}
        assert wanted <= set(project["optional-dependencies"])
    elif words[1] == "-m":
        assert importlib.util.find_spec(words[2]) is not None
    else:
        assert (ROOT / words[1]).is_file()


def test_ci_takes_its_commands_from_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    named = [line.strip() for line in script.splitlines() if "pytest" in line]
    assert named == ["tests=$(command_of pytest)"]
    found = [line for line in README.splitlines() if line.startswith("$ ") and "pytest" in line]
    assert len(found) == 1, "README.md must have one command with pytest, as .ci/run needs"


def test_contributors_use_the_commands_of_the_readme() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    for command in commands_of(README)[1].split(" && "):
        assert f"| `{command}` |" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_resolves(page: Path) -> None:
    text = page.read_text()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), f"{page.name} links to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
                assert anchor in map(slug, headings), f"{page.name} links to {target}"


PAGE = """\
Words.

```python
x = 1
```

```python rules.py
def f() -> None:
    raise KeyError(x)
print("before")
f()
```

```text
before
KeyError: 1
```
"""


def test_blocks_share_their_names_and_show_their_output(notebook: types.ModuleType) -> None:
    first, second, _ = blocks_of(PAGE)
    assert output_of(first.code(), notebook) == ""
    assert output_of(second.code(), notebook) == second.expected == "before\nKeyError: 1\n"


def test_a_block_has_the_file_and_the_lines_that_messages_show(
    notebook: types.ModuleType,
) -> None:
    first, second, _ = blocks_of(PAGE)
    assert (first.code().co_filename, list(first.code().co_lines())[-1][2]) == ("README.md", 4)
    output_of(second.code(), notebook)
    assert notebook.f.__code__.co_firstlineno == 1
    assert linecache.getline("rules.py", 2) == "    raise KeyError(x)\n"


def test_a_warning_is_part_of_what_a_block_shows(notebook: types.ModuleType) -> None:
    code = compile("import warnings\nwarnings.warn('w')\nprint(1)", "x", "exec")
    assert output_of(code, notebook) == "1\nUserWarning: w\n"


GUIDE = re.compile(
    r"^\| `(?P<a>[^`]+)` \| `(?P<b>[^`]+)` \| (?P<relation>[a-z ]+) \|$", re.MULTILINE
)


class ZEROS(tq.ImplicitArray):
    """Any implicit class: what the guide says holds of each."""

    def materialize(self) -> jax.Array:
        return jax.numpy.zeros(self.shape, self.dtype)


def signature_in_guide(operands: str) -> Signature:
    """The signature of a handler with these operands, as the guide writes them."""

    names: dict[str, Any] = {
        "Array": jax.Array,
        "ArrayValue": tq.ArrayValue,
        "Float": Float,
        "Float32": Float32,
        "ImplicitArray": tq.ImplicitArray,
        "Int": Int,
        "Zeros": ZEROS,
    }
    exec(f"def handler({operands.replace(chr(92), '')}, /): ...", names)
    return Handler.of(names["handler"], takes_first=False).signature


@pytest.mark.parametrize("row", list(GUIDE.finditer(README)), ids=lambda row: row["a"])
def test_the_guide_to_specificity_is_true(row: re.Match[str]) -> None:
    a, b = signature_in_guide(row["a"]), signature_in_guide(row["b"])
    narrower, wider = is_subset(a, b), is_subset(b, a)
    relation = {
        (True, True): "the same",
        (True, False): "more specific",
        (False, True): "less specific",
        (False, False): "overlapping" if overlap(a, b) is not None else "disjoint",
    }[narrower, wider]
    assert row["relation"] == relation


def test_the_guide_has_fifteen_rows() -> None:
    assert len(GUIDE.findall(README)) == 15
