"""The wheel: what it ships, what it needs, and that its types work without this checkout."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processor_time import takes_less_than

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USER = ROOT / "tests" / "static" / "user_package"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The built wheel."""
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = home.glob("*.whl")
    return zipfile.Path(path)


@pytest.fixture(scope="module")
def installed(wheel: zipfile.Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs, and nothing of this checkout."""
    home = tmp_path_factory.mktemp("installed")
    wheel.root.extractall(home)
    return home


def test_the_wheel_ships_the_package_with_its_types_and_nothing_else(wheel: zipfile.Path) -> None:
    names = {name for name in wheel.root.namelist() if not name.endswith("/")}
    tops = {name.split("/")[0] for name in names}
    assert tops == {"typedqax", f"typedqax-{PROJECT['version']}.dist-info"}
    assert "typedqax/py.typed" in names
    shipped = {name for name in names if name.endswith(".py")}
    assert shipped == {str(path.relative_to(ROOT)) for path in (ROOT / "typedqax").rglob("*.py")}
    assert not [name for name in names if name.endswith(".pyi")]
    assert f"typedqax-{PROJECT['version']}.dist-info/licenses/LICENSE" in names


def test_the_wheel_needs_five_packages_and_no_others(wheel: zipfile.Path) -> None:
    (info,) = [name for name in wheel.root.namelist() if name.endswith("/METADATA")]
    needed = email.message_from_string(wheel.root.read(info).decode()).get_all("Requires-Dist", [])
    always = {text.split(">")[0] for text in needed if "extra ==" not in text}
    assert always == {"jax", "jaxlib", "jaxtyping", "beartype", "typing-extensions"}


def test_importing_the_package_imports_only_what_it_needs() -> None:
    code = (
        "import sys, jax, jaxtyping, beartype, typing_extensions\n"
        "def tops(): return {name.split('.')[0] for name in sys.modules}\n"
        "before = tops(); import typedqax\n"
        "print(sorted(tops() - before - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "['typedqax']"), done.stderr


def test_importing_the_package_leaves_devices_to_be_chosen() -> None:
    code = (
        "import jax, typedqax, typedqax.arrays, typedqax.testing\n"
        "jax.config.update('jax_num_cpu_devices', 3)  # an error once there is a backend\n"
        "print(jax.device_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr


def users_mypy(installed: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """A user's mypy: strict, none of this project's settings, and run away from the checkout."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file="]
    return subprocess.run(
        [*command, "--follow-imports=silent", "--cache-dir", str(cache), str(USER)],
        cwd=installed,
        env={**os.environ, "MYPYPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_installed_wheel_gives_a_user_quiet_types_without_our_stubs(
    installed: Path, checker_cache: Callable[[str], Path]
) -> None:
    done = users_mypy(installed, checker_cache("mypy_user"))
    assert done.stdout.startswith("Success: no issues found in"), done.stdout + done.stderr


def test_mypy_checks_a_package_of_three_hundred_lines_in_two_seconds_of_a_processor_once_warm(
    installed: Path, checker_cache: Callable[[str], Path]
) -> None:
    assert sum(len(path.read_text().splitlines()) for path in USER.glob("*.py")) > 300
    cache = checker_cache("mypy_user")
    assert users_mypy(installed, cache).returncode == 0
    assert takes_less_than(2, lambda: users_mypy(installed, cache))
