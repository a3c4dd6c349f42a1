"""The examples in docstrings: each runs as it stands, and the public names have one."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import typedqax as tq
from typedqax import arrays, testing

pytestmark = pytest.mark.without_leak_checks

ROOT = Path(tq.__file__).resolve().parent
MODULES = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_an_example_holds_for_who_copies_it(name: str) -> None:
    # In an empty module: a name that the example does not import is an error.
    tests = [
        test
        for test in doctest.DocTestFinder().find(importlib.import_module(name), globs={})
        if test.examples
    ]
    assert tests
    for test in tests:
        told: list[str] = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
        assert result.failed == 0, "".join(told)


def test_every_public_class_and_function_has_an_example() -> None:
    named = [
        (name, value)
        for module in (tq, arrays, testing)
        for name, value in vars(module).items()
        if not name.startswith("_") and name in getattr(module, "__all__", vars(module))
        if inspect.isclass(value) or inspect.isfunction(value)
    ]
    public = {
        name: inspect.getdoc(value) or ""
        for name, value in named
        if not (isinstance(value, type) and issubclass(value, BaseException))
    }
    assert len(public) > 20
    without = {name for name, doc in public.items() if ">>> " not in doc}
    assert without == {"HandlerReport"}  # which check_handlers gives, in its example
