"""What is found in implicit classes: fields and a `materialize` that contradict themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mistakes import CLASSES, HEAD, only
from typedqax._check import check_packages


@pytest.mark.parametrize(("body", "code", "line", "text"), CLASSES.values(), ids=CLASSES.keys())
def test_what_is_wrong_with_a_class_is_found_at_its_line(
    package: Callable[..., Path], body: str, code: str, line: str, text: str
) -> None:
    name = f"sample_class_{abs(hash(body))}"
    finding, at = only(package, name, f"class Bad(tq.ImplicitArray):\n{body}")
    assert finding.code == code
    assert at.startswith(line)
    assert text in finding.text


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param('    x: Float[tq.ArrayValue, "n"]\n    m: int = tq.aux_field()\n', id="aux"),
        pytest.param("", id="no fields"),
    ],
)
def test_an_axis_of_materialize_that_other_data_may_tell_is_but_noted(
    package: Callable[..., Path], fields: str
) -> None:
    body = (
        f"class Fine(tq.ImplicitArray):\n{fields}"
        '    def materialize(self) -> Float[Array, "m n"]: ...\n'
    )
    finding, at = only(package, f"sample_other_{len(fields)}", body)
    assert (finding.code, finding.severity) == ("materialize", "note")
    assert at.startswith("def materialize")


def test_sizes_that_add_up_to_less_than_nothing_are_an_error(package: Callable[..., Path]) -> None:
    body, *_ = CLASSES["axes that never agree"]
    finding, _ = only(package, "sample_less", f"class Bad(tq.ImplicitArray):\n{body}")
    assert finding.severity == "error"


def test_an_axis_that_no_field_gives_a_size_is_an_error(package: Callable[..., Path]) -> None:
    body = (
        '    x: Float[tq.ArrayValue, "n+1"]\n'
        '    y: Float[tq.ArrayValue, "m"]\n'
        "    def materialize(self) -> Array: ...\n"
    )
    finding, at = only(package, "sample_unbound", f"class Bad(tq.ImplicitArray):\n{body}")
    assert (finding.code, finding.severity, at) == (
        "field",
        "error",
        'x: Float[tq.ArrayValue, "n+1"]',
    )
    assert finding.text.endswith(
        "the axis 'n+1' needs 'n', which is not bound by a plain axis in every case; give 'n' an "
        "axis of its own in another field, or write `_`"
    )


def test_every_field_of_a_class_is_looked_at(package: Callable[..., Path]) -> None:
    body = (
        "class Bad(tq.ImplicitArray):\n"
        '    x: Float[tq.ArrayValue, "n ++"]\n'
        '    y: Flaot[tq.ArrayValue, "n"]\n'
        "    z: bytes\n"
        "    def materialize(self) -> Array: ...\n"
    )
    package("sample_fields", rules=HEAD + body)
    found = check_packages("sample_fields").findings
    assert [(each.line, each.code) for each in found] == [
        (15, "field"),
        (16, "field"),
        (17, "field"),
    ]
