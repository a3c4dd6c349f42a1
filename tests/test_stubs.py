"""The stubs of this project's own check: read by mypy, and true of the installed jaxlib."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
STUBS = ROOT / "stubs"

USE = """\
from jaxlib._jax import pytree
from typing_extensions import assert_type

def leaves(treedef: pytree.PyTreeDef) -> int:
    assert_type(treedef.num_leaves, int)
    return treedef.num_leaves
"""


def run(*command: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "MYPYPATH"}
    if path is not None:
        env["MYPYPATH"] = str(path)
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, env=env, check=False
    )


def mypy(source: Path, config: str) -> subprocess.CompletedProcess[str]:
    cache = str(source.parent / "cache")
    return run("mypy", f"--config-file={config}", "--strict", "--cache-dir", cache, str(source))


def test_the_projects_mypy_configuration_reads_the_stubs(tmp_path: Path) -> None:
    source = tmp_path / "use.py"
    source.write_text(USE)
    done = mypy(source, str(ROOT / "mypy.ini"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_the_stubs_the_same_file_is_red(tmp_path: Path) -> None:
    source = tmp_path / "use.py"
    source.write_text(USE)
    done = mypy(source, "")
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'library stub for module named "jaxlib._jax"' in done.stdout


def test_the_stubs_say_what_the_installed_jaxlib_has(tmp_path: Path) -> None:
    # What nanobind makes of any class, and no stub can say.
    allow = tmp_path / "allow"
    allow.write_text(r"jaxlib\._jax\.pytree\.PyTreeDef(\.__init__)?" + "\n")
    done = run(
        "mypy.stubtest",
        "jaxlib._jax.pytree",
        "--ignore-missing-stub",
        "--ignore-disjoint-bases",
        "--allowlist",
        str(allow),
        path=STUBS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_no_stubs_but_those_of_jaxlibs_pytree() -> None:
    found = {str(path.relative_to(STUBS)) for path in STUBS.rglob("*.pyi")}
    assert found == {
        "jaxlib/__init__.pyi",
        "jaxlib/_jax/__init__.pyi",
        "jaxlib/_jax/pytree.pyi",
    }
