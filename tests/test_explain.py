"""Explanations: which handler a call would run and what a whole run did: text, page and data."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from typedqax import ops
from typedqax._explain import Explanation


class Twice(tq.ImplicitArray):
    half: Float[tq.ArrayValue, "*axes"]

    def materialize(self) -> Float[Array, "*axes"]:
        return 2 * self.half


class Other(Twice): ...


def negate(x: Twice, /) -> Twice:
    return Twice(-x.half)


def add_matrix(x: Float[Twice, "m n"], y: Float[Array, "m n"], /) -> Twice:
    return Twice(x.half + y / 2)


def picky(x: Twice, /, **params: Any) -> Twice | tq.Declined:
    return tq.DECLINE


def through(x: Twice, /) -> Twice:
    return Twice(jnp.exp(2 * x.half) / 2)


TABLE = tq.HandlerTable(
    "t", ops.neg.to(negate), ops.add.to(add_matrix), ops.exp.to(picky, precedence=1),
    ops.exp.to(through),
)  # fmt: skip
TWO = Twice(jnp.ones((2, 3)))


def at(function: Any) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno}"


def model(x: Any) -> Any:
    y = -x
    y = -y
    return jnp.sin(y) + jnp.sin(y)


MODEL = model.__code__.co_firstlineno


def run(function: Any = model, *args: Any) -> Explanation:
    return tq.explain(tq.use_implicit_args(function, handlers=TABLE))(*(args or (TWO,)))


# --- which ---------------------------------------------------------------------------------------


def test_which_tells_the_winner_its_axes_and_the_rest() -> None:
    found = tq.which(ops.add, TWO, jnp.ones((2, 3)), handlers=TABLE)
    assert str(found).splitlines() == [
        f"add(Twice f32[2,3], Array f32[2,3]): add_matrix ({at(add_matrix)})",
        "  with m = 2, n = 3",
        f'  + add_matrix(x: Float[Twice, "m n"], y: Float[Array, "m n"])  {at(add_matrix)}',
    ]


def test_which_tells_why_a_handler_does_not_apply() -> None:
    found = tq.which(ops.add, TWO, jnp.ones(3), handlers=TABLE)
    first, second = str(found).splitlines()
    assert first == (
        "add(Twice f32[2,3], Array f32[3]): no handler takes it; implicit operands become dense."
    )
    assert second.endswith(": operand 2: rank 1, expected 2")


def test_which_works_on_shapes_alone() -> None:
    found = tq.which(ops.add, TWO, jax.ShapeDtypeStruct((2, 3), jnp.float32), handlers=TABLE)
    assert found.winner is not None
    assert found.winner.handler == "add_matrix"


def test_which_as_data_survives_json() -> None:
    found = tq.which(ops.neg, TWO, handlers=TABLE).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["winner"] == {
        "handler": "negate",
        "place": at(negate),
        "signature": "x: Twice",
        "applies": True,
        "reason": "",
    }
    assert tq.which(ops.sin, TWO, handlers=TABLE).to_dict()["winner"] is None


def test_which_as_html_marks_the_winner_and_escapes_what_users_wrote() -> None:
    page = tq.which(ops.add, TWO, jnp.ones((2, 3)), handlers=TABLE)._repr_html_()
    assert "<td><code>runs</code></td>" in page
    assert "Float[Twice, &quot;m n&quot;]" in page
    assert "m = 2, n = 3" in page
    well_formed(page)


# --- a run as text -------------------------------------------------------------------------------


def test_a_run_is_a_table_with_totals_and_the_handlers_to_write() -> None:
    lines = run().to_text(120).splitlines()
    assert lines[0].split() == ["calls", "primitive", "and", "operands", "what", "ran", "where"]
    assert lines[2].split() == [
        "1", "neg(Twice", "f32[2,3])", "negate", f"({short(at(negate))})", here(MODEL + 1),
    ]  # fmt: skip
    assert lines[4].split() == ["2", "sin(Twice", "f32[2,3])", "DENSE,", "48", "B", here(MODEL + 3)]
    assert lines[-2:] == [
        "2 calls ran a handler; 2 calls made an operand dense (48 B).",
        "Twice: 1 primitive lacks a handler: sin x2",
    ]


def short(place: str) -> str:
    """A place in these tests, as a table at the root of the project, or elsewhere, shows it."""
    return "test_explain.py:" + place.rpartition(":")[2]


def here(line: int) -> str:
    return f"tests/test_explain.py:{line}"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent.parent)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_of_a_table_is_wider_than_asked(width: int) -> None:
    def long(x: Any) -> Any:
        return -x + jnp.ones((2, 3)) + x + jnp.exp(x) + jnp.concatenate([x] * 6).sum()

    text = run(long).to_text(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" in text


@pytest.mark.parametrize(("columns", "width"), [("20", 80), ("97", 97), ("400", 120)])
def test_the_table_fits_the_terminal(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    explanation = run(lambda x: jnp.concatenate([x] * 9))
    assert max(map(len, str(explanation).splitlines())) == width
    assert str(explanation) == explanation.to_text(width)


def test_what_declined_is_a_note_below_the_line() -> None:
    lines = run(lambda x: jnp.exp(x)).to_text(120).splitlines()
    assert "through (" in lines[2]
    assert lines[3].strip() == f"· picky (tests/{short(at(picky))}) declined"


def test_why_something_became_dense_is_a_note_below_the_line() -> None:
    lines = run(lambda x: x + jnp.float32(1)).to_text(120).splitlines()
    assert lines[3].strip() == (
        f"· add_matrix (tests/{short(at(add_matrix))}): operand 2: rank 0, expected 2"
    )


def test_a_call_of_two_implicit_operands_is_one_call() -> None:
    (line,) = run(lambda x: x * x).lines
    assert (line.primitive, line.count, line.nbytes) == ("mul", 1, 48)


def test_each_class_has_its_list_of_missing_handlers() -> None:
    explanation = run(lambda x, y: (jnp.sin(x), x * y, jnp.sin(y)), TWO, Other(jnp.ones((2, 3))))
    assert explanation.missing == {"Twice": {"sin": 1, "mul": 1}, "Other": {"mul": 1, "sin": 1}}
    assert explanation.totals == (
        "0 calls ran a handler; 3 calls made an operand dense (96 B).",
        "Twice: 2 primitives lack a handler: sin x1, mul x1",
        "Other: 2 primitives lack a handler: mul x1, sin x1",
    )


def test_a_run_without_implicit_arrays_says_so() -> None:
    assert str(run(model, jnp.ones(3))) == "No primitive met an implicit array."


def test_a_run_in_which_nothing_became_dense_says_so() -> None:
    assert run(lambda x: -x).totals == ("1 call ran a handler; nothing became dense.",)


def test_a_call_in_no_line_of_the_user_s_says_so() -> None:
    explanation = tq.explain(jax.jit(tq.use_implicit_args(jnp.sin)))(TWO)
    assert [line.where for line in explanation.lines] == [None]
    assert explanation.to_text(100).splitlines()[2].endswith("  no line of yours")
    assert "no line of yours" in explanation._repr_html_()
    with pytest.raises(tq.MaterializationError, match=r"\(24 B\), at no line of yours$"):
        explanation.assert_no_materialization()


def test_what_runs_in_control_flow_and_in_the_backward_pass_is_told() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (c, jnp.sum(-x)), None, None, length=3)[1].sum()

    explanation = tq.explain(jax.grad(tq.use_implicit_args(loop, handlers=TABLE)))(TWO)
    assert {"neg", "reduce_sum"} <= {line.primitive for line in explanation.lines}


# --- a run as data and as a page -----------------------------------------------------------------


def test_a_run_as_data_survives_json() -> None:
    found = run().to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["lines"][-1] == {
        "primitive": "sin",
        "operands": ["Twice f32[2,3]"],
        "count": 2,
        "handler": None,
        "bytes": 48,
        "dense": ["Twice"],
        "reasons": [],
        "where": f"{__file__}:{MODEL + 3}",
    }
    assert (found["handled"], found["materialized"], found["bytes"]) == (2, 2, 48)
    assert found["missing"] == {"Twice": {"sin": 2}}


class _Tags(html.parser.HTMLParser):
    """Keeps the tags that are open, and what pages load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [f"{name}={value}" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def well_formed(page: str) -> None:
    """Every tag is closed, and nothing is loaded from elsewhere."""
    tags = _Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    assert tags.loaded == []
    assert not re.search(r"https?:|@import|url\(|<script", page)


def test_a_page_is_whole_offline_and_marks_what_became_dense(tmp_path: Path) -> None:
    run().to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    well_formed(page)
    assert page.startswith("<!DOCTYPE html>")
    assert page.count('<tr class="dense">') == 1
    assert page.count('<tr class="fine">') == 2
    assert "Twice: 1 primitive lacks a handler: sin x2" in page
    assert f'title="{__file__}:{MODEL + 3}"' in page


def test_notebooks_show_the_same_table() -> None:
    fragment = run(lambda x: x + jnp.float32(1))._repr_html_()
    well_formed(fragment)
    assert "operand 2: rank 0, expected 2</li>" in fragment


# --- assertions ----------------------------------------------------------------------------------


def test_a_materialization_fails_the_assertion_with_its_line() -> None:
    with pytest.raises(tq.MaterializationError) as caught:
        run().assert_no_materialization()
    assert str(caught.value).splitlines() == [
        "implicit arrays became dense:",
        f"  2 x sin(Twice f32[2,3]): became dense (48 B), at {__file__}:{MODEL + 3}",
    ]


def test_what_is_allowed_and_other_classes_pass() -> None:
    run().assert_no_materialization(allow=["sin"])
    run().assert_no_materialization(Other)
    run(lambda x: -x).assert_no_materialization()
    with pytest.raises(tq.MaterializationError):
        run(jnp.sin, Other(jnp.ones(3))).assert_no_materialization(Other, allow=["cos"])
    with pytest.raises(tq.MaterializationError):
        run(jnp.sin, Other(jnp.ones(3))).assert_no_materialization(Twice)


def test_a_string_of_what_is_allowed_is_refused() -> None:
    with pytest.raises(TypeError, match=r"allow='sin': pass a sequence of primitive names"):
        run().assert_no_materialization(allow="sin")


def test_many_failures_stay_short() -> None:
    def wide(x: Any) -> Any:
        return [getattr(jnp, name)(x) for name in NAMES]

    with pytest.raises(tq.MaterializationError) as caught:
        run(wide).assert_no_materialization()
    assert len(str(caught.value)) < 4000
    assert str(caught.value).endswith(f"  ... and {len(NAMES) - 10} more")


NAMES = ["sin", "cos", "tan", "tanh", "arctan", "arcsinh", "sinh", "cosh", "floor", "ceil", "expm1",
         "log1p"]  # fmt: skip
