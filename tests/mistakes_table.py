"""`MISTAKES.md`: who notices each mistake of `tests/static/mistakes`, and when.

What mypy and pyright say is marked in each file, and `tests/test_static.py` holds them to it. What
happens at run time comes from running the files, here: `python -m tests.mistakes_table` writes the
page anew.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.static_marks import marks_in

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "tests" / "static" / "mistakes"
PAGE = ROOT / "MISTAKES.md"
FILES = [path for path in sorted(HOME.glob("*.py")) if path.stem not in ("__init__", "right")]

SECTIONS = (
    "Operands",
    "Params",
    "Results",
    "Tables",
    "Annotations",
    "Bodies",
    "Classes",
    "Use",
)
COLUMNS = ("mypy --strict", "pyright", "when declared", "when run", "the check command")

HEAD = """\
# Who notices which mistake, and when

{count} mistakes that users made or could make, each in a file of its own. The first columns have
what mypy and pyright say of that file; *when declared* has what importing it raises, *when run*
what the call raises that it makes after that; the last one has the codes of what
`python -m typedqax check` finds. A dash: nothing is said, or it does not come to that. Long
messages are cut.

{totals}

This page is written by `python -m tests.mistakes_table`; a test writes it again and compares.
"""

FINDING = re.compile(
    r"(?P<file>\S+):\d+: (?P<severity>error|warning|note): .*  \[(?P<code>[\w-]+)\]"
)
PLACES = re.compile(r" \(\S+\.py:\d+\)| at \S+\.py:\d+|\S+\.py:\d+")

_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake, and what was said of it, column by column."""

    path: Path
    section: str
    title: str
    said: tuple[str, ...]

    def row(self) -> str:
        """Its line of the table."""
        link = f"[{self.title}]({self.path.relative_to(ROOT).as_posix()})"
        cells = [f"`` {each} ``".replace("|", "\\|") if each else "—" for each in self.said]
        return "| " + " | ".join([link, *cells]) + " |"


def mistakes() -> list[Mistake]:
    """Every mistake, after its file has been run; a process of its own is the place for that."""
    sys.path.insert(0, str(HOME.parent))
    if _happens("mistakes.right") != ("", ""):
        raise RuntimeError("What is right in mistakes.right does not run.")
    found = _findings()
    return [_mistake(path, found.get(str(path), "")) for path in FILES]


def page(rows: Iterable[Mistake]) -> str:
    """The whole page."""
    rows = list(rows)
    noticed = [sum(bool(row.said[i]) for row in rows) for i in range(len(COLUMNS))]
    totals = ", ".join(f"{name}: {n}" for name, n in zip(COLUMNS, noticed, strict=True))
    parts = [HEAD.format(count=len(rows), totals=f"Noticed by {totals}.")]
    for section in SECTIONS:
        lines = [row.row() for row in rows if row.section == section]
        header = "| " + " | ".join(["mistake", *COLUMNS]) + " |"
        parts.append("\n".join([f"## {section}", "", header, "|---" * 6 + "|", *lines, ""]))
    return "\n".join(parts)


def _mistake(path: Path, found: str) -> Mistake:
    source = path.read_text()
    docstring = ast.get_docstring(ast.parse(source)) or ""
    section, _, title = docstring.partition(": ")
    said: dict[str, list[str]] = {"mypy": [], "pyright": []}
    for mark in marks_in(source):
        if mark.code != "none":
            said[mark.checker].append(f"{mark.telling} [{mark.code}]")
    checkers = [_first(texts) for texts in said.values()]
    declared, run = _happens(f"mistakes.{path.stem}")
    return Mistake(path, section, title, (*checkers, declared, run, found))


def _first(texts: list[str]) -> str:
    return texts[0] if texts else ""


def _happens(module: str) -> tuple[str, str]:
    """What importing the file says, and what its `call()` says."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call = getattr(importlib.import_module(module), "call", None)
        except Exception as error:  # noqa: BLE001  # that is what is looked at
            return _brief(error), ""
        return "", "" if call is None else _raised(call)


def _raised(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # that is what is looked at
        return _brief(error)
    return ""


def _brief(error: Exception) -> str:
    """The beginning of what an error says, without places, which the file's own name tells."""
    text = re.sub(r"\s+", " ", PLACES.sub("", str(error))).strip()
    text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(" ")[0] + " …"


def _findings() -> Mapping[str, str]:
    """What the command finds in each file: the codes of errors; if there are none, of others."""
    command = [sys.executable, "-m", "typedqax", "check", "mistakes"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HOME.parent)])}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 1 or "\nFound " not in done.stdout:
        raise RuntimeError(f"the command failed:\n{done.stdout}{done.stderr}")
    codes: dict[str, dict[str, dict[str, None]]] = {}
    for line in done.stdout.splitlines():
        found = FINDING.fullmatch(line)
        if found is not None:
            of_file = codes.setdefault(str(ROOT / found["file"]), {"error": {}, "other": {}})
            severity, code = found["severity"], found["code"]
            if severity == "error":
                of_file["error"][code] = None
            else:
                of_file["other"][f"{code} (a {severity})"] = None
    return {file: ", ".join(found["error"] or found["other"]) for file, found in codes.items()}


if __name__ == "__main__":
    PAGE.write_text(page(mistakes()))
