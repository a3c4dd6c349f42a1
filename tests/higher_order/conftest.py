"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def without_leak_checks() -> Iterator[None]:
    """JAX without its search for leaked tracers, which keeps nothing and traces anew each time.

    The grids of this folder take two thirds of their time less so; leaks are looked for family by
    family in test_robustness.py.
    """
    with jax.check_tracer_leaks(False):
        yield
