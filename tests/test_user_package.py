"""The user package of `tests/static` runs as its author would run it, and passes its own tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postponed import USER, postponed

ROOT = Path(__file__).resolve().parent.parent
HOOK = (
    "from jaxtyping import install_import_hook\n"
    "with install_import_hook({name!r}, 'beartype.beartype'):\n"
    "    from {name}.__main__ import main\n"
    "main()\n"
)


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**env, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("later", "hooked"),
    [
        pytest.param(False, False, id="as it is"),
        pytest.param(False, True, id="under jaxtyping's import hook"),
        pytest.param(True, True, id="under the hook with postponed annotations"),
    ],
)
def test_the_user_package_runs(tmp_path: Path, *, later: bool, hooked: bool) -> None:
    package = postponed(tmp_path, "later_package") if later else USER
    name = package.name
    how = ("-c", HOOK.format(name=name)) if hooked else ("-m", name)
    done = run(*how, folder=package.parent)
    assert done.returncode == 0, done.stderr
    said = re.fullmatch(
        r"loss (\S+) -> (\S+)\n(\d+) parameters; (\d+) if they were dense\n", done.stdout
    )
    assert said is not None, done.stdout
    assert float(said[2]) < float(said[1])
    # Two rows and two biases of 8, and an update of rank 2; two matrices of 8 x 8 otherwise.
    assert (int(said[3]), int(said[4])) == (4 * 8 + 2 * 8 * 2, 2 * 64 + 2 * 8)


def test_the_user_package_passes_its_own_tests(tmp_path: Path) -> None:
    # A copy, away from the conftest.py of these tests; its annotations are postponed.
    package = postponed(tmp_path, "tested_package")
    checks = str(package / "checks.py")
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", checks, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
