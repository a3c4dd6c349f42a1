"""What ty and pyrefly say of users' code: `CHECKERS.md` lists it.

`python -m tests.other_checkers`, where both are installed (they are not in the extra `dev`: they
change their minds with every release, and no test depends on them).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.static_marks import marks_in
from tests.test_static import FILES, ROOT, STATIC, readme_as_a_file

MISTAKES = STATIC / "mistakes"
SAID = re.compile(r"^(?:ERROR )?(?P<file>\S+?\.py):(?P<line>\d+)\S* .*")


def gather(home: Path) -> None:
    """Users' code in one folder: the good files and the mistakes, the examples and the README."""
    for path in FILES:
        if not path.stem.endswith("_bad") and path.stem != "stubs_are_read":
            copied = home / path.relative_to(STATIC)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copied)
    for path in (ROOT / "examples").glob("*.py"):
        shutil.copy(path, home)
    readme_as_a_file(home)


def commands(home: Path) -> Iterator[tuple[str, list[str]]]:
    """Each checker, and how it is run in `home`."""
    yield (
        "ty",
        [
            *("ty", "check", "--python", sys.prefix, "--extra-search-path", str(ROOT)),
            *("--output-format", "concise", "."),
        ],
    )
    for preset in ("default", "strict"):
        config = home / f"pyrefly-{preset}.toml"
        config.write_text(
            f'preset = "{preset}"\n'
            f'search-path = ["{ROOT}", "{home}"]\n'
            f'python-interpreter-path = "{sys.executable}"\n'
        )
        command = ["pyrefly", "check", "-c", str(config), "--output-format", "min-text"]
        yield f"pyrefly, {preset}", command


def main() -> None:
    """Print what is said of good code, and of how many mistakes something is said."""
    expressible = {
        path.name
        for path in MISTAKES.glob("*.py")
        if any(mark.code != "none" for mark in marks_in(path.read_text()))
    }
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        gather(home)
        for name, command in commands(home):
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if SAID.match(line)]
            seen = {Path(line.split(":")[0].removeprefix("ERROR ")).name for line in lines}
            count = len(seen & expressible)
            print(f"== {name}: {count} of {len(expressible)} mistakes; of right code:")
            right = [line for line in lines if "mistakes/" not in line or "right.py" in line]
            print("\n".join(right))
            print("not seen:", sorted(expressible - seen))
            print("seen besides:", sorted(p for p in seen - expressible if (MISTAKES / p).exists()))


if __name__ == "__main__":
    main()
