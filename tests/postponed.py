"""The user package of `tests/static`, with `from __future__ import annotations` in each module."""

from __future__ import annotations

import ast
from pathlib import Path

USER = Path(__file__).resolve().parent / "static" / "user_package"


def postponed(home: Path, name: str) -> Path:
    """A copy in `home`, called `name`, whose annotations are strings when it runs."""
    package = home / name
    package.mkdir()
    for path in USER.glob("*.py"):
        source = path.read_text()
        docstring = ast.parse(source).body[0].end_lineno
        lines = source.replace("user_package", name).splitlines()
        lines.insert(docstring or 0, "\nfrom __future__ import annotations")
        (package / path.name).write_text("\n".join(lines) + "\n")
    return package
