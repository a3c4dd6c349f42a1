"""Other people's code runs as its authors run it: JAX's own promotion, and its caches on."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of this folder as one that this project's own strictness is not for."""
    for item in items:
        if "third_party" in item.path.parts:
            item.add_marker("lenient_promotion")
            item.add_marker("without_leak_checks")
