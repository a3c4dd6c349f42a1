"""The JAX that every test runs under: CPU, four devices, strict promotion, leaks are errors."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Read when JAX first makes a backend. In the environment, so that examples that
# tests run as programs of their own see the same machine. What a test compiles runs once, on a few
# numbers: XLA takes a fifth of its time where it does not optimize machine code, and a twentieth
# less where it does not split up what it compiles, which is small.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = " ".join(
    [
        *(f for f in os.environ.get("XLA_FLAGS", "").split() if "host_platform_device" not in f),
        "--xla_force_host_platform_device_count=4",
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
    ]
)

import jax
import pytest
from jax._src import dispatch

from typedqax._installed import installed_kept, nothing_installed
from typedqax._table import HandlerTable

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_check_tracer_leaks", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def primitives_are_remembered() -> None:
    """JAX keeps what it compiles for a primitive on concrete arrays while it searches for leaks.

    It would be compiled anew at each call. No user's function is traced in that, so that there is
    nothing to find: tests that call primitives outside of `jit` take a fifth of their time.
    """
    compiled = dispatch.xla_primitive_callable

    def remembered(primitive: Any, **params: Any) -> Any:
        with jax.check_tracer_leaks(False):
            return compiled(primitive, **params)

    dispatch.xla_primitive_callable = remembered


primitives_are_remembered()

LONGEST = [
    "static",
    "testing",
    "examples",
    "packaging",
    "scope",
    "arrays",
    "transform_law",
    "shard_map",
    "user_package",
    "laws",
    "relations",
    "other_families",
    "captured",
    "seed_examples",
    "usage",
    "loops",
]
"""The modules whose tests take longest, of `tests/test_<module>.py`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no process works on when the others are done."""
    there = {path.stem.removeprefix("test_") for path in Path(__file__).parent.rglob("test_*.py")}
    if not there.issuperset(LONGEST):
        raise pytest.UsageError(f"LONGEST names no test file: {set(LONGEST) - there}.")
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="session")
def checker_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A folder of that name which the next run finds again, for a type checker to fill."""
    if request.config.pluginmanager.hasplugin("cacheprovider"):
        return request.config.cache.mkdir
    return tmp_path_factory.mktemp


@pytest.fixture(autouse=True)
def promotion(request: pytest.FixtureRequest) -> Iterator[None]:
    """JAX's own loose promotion, for tests that are marked `lenient_promotion`."""
    if request.node.get_closest_marker("lenient_promotion") is None:
        yield
        return
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(autouse=True, scope="module")
def what_is_there_is_not_searched() -> None:
    """What other modules left is not garbage of this one's tests.

    Where a trace outlives its function, JAX collects garbage to see whether a tracer of it does
    too. Among all that the process has imported that takes a sixth of a second, and often a third
    of a test's time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leak_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """No search for leaked tracers in tests that are marked `without_leak_checks`.

    The search keeps nothing and traces anew each time: a grid takes a third of its time without.
    """
    if request.node.get_closest_marker("without_leak_checks") is None:
        yield
        return
    with jax.check_tracer_leaks(False):
        yield


@pytest.fixture(autouse=True)
def nothing_installed_stays() -> Iterator[None]:
    """What a test installs or declares is gone after it."""
    with installed_kept():
        yield


@pytest.fixture
def nothing_else_installed() -> Iterator[None]:
    """What the test installs is all that is installed."""
    with nothing_installed():
        yield


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes a package, a keyword for each of its files; what imports it left is gone afterwards.

    Such packages are called `sample...`.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def write(name: str, **files: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file, text in {"__init__": "", **files}.items():
            folder.joinpath(f"{file}.py").write_text(text)
        return folder

    before = set(sys.modules)
    with nothing_installed():
        yield write
    for name in set(sys.modules) - before:
        if name.startswith("sample"):
            left = vars(sys.modules.pop(name))  # which JAX keeps, if it has flattened a class of it
            for table in [key for key, value in left.items() if type(value) is HandlerTable]:
                del left[table]
