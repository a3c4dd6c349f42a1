"""Statements that do nothing, found in the text of a module."""

from __future__ import annotations

import types
from pathlib import Path

import typedqax as tq
from typedqax._source_findings import source_findings

TEXT = """\
import typedqax as tq
from typedqax import materialization as policy

policy("warn")
kept = policy("warn")
with policy("error"), tq.declaring():
    tq.declaring()

@policy("allow")
def f():
    tq.materialize(1)
    unknown.name(2)
    (lambda: 3)()
"""


def module_of(text: str, path: Path) -> types.ModuleType:
    path.write_text(text)
    module = types.ModuleType("sample_text")
    module.__file__ = str(path)
    module.__dict__.update(tq=tq, policy=tq.materialization)
    return module


def test_only_statements_that_do_nothing_are_found(tmp_path: Path) -> None:
    path = tmp_path / "sample_text.py"
    found = list(source_findings(module_of(TEXT, path)))
    assert [(each.file, each.line, each.code) for each in found] == [
        (str(path), 4, "not-entered"),
        (str(path), 7, "not-entered"),
    ]
    assert [each.text.partition(":")[0] for each in found] == [
        "`policy('warn')` by itself does nothing",
        "`tq.declaring()` by itself does nothing",
    ]


def test_nothing_is_said_of_a_module_without_a_text() -> None:
    assert list(source_findings(types.ModuleType("sample_built_in"))) == []


def test_nothing_is_said_of_a_text_that_is_no_python(tmp_path: Path) -> None:
    assert list(source_findings(module_of("this is: not", tmp_path / "sample_text.py"))) == []


def test_the_library_itself_has_none() -> None:
    assert [each for each in tq.check("typedqax") if each.code == "not-entered"] == []
