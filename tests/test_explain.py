"""Explanations: what a whole run does with implicit arrays, as text, page and data."""

from __future__ import annotations

import dataclasses
import functools
import html.parser
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import rich.console
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from typedqax import ops
from typedqax._explain import Explanation
from typedqax._flow import Step


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


# --- a run as text -------------------------------------------------------------------------------


def test_a_run_is_a_table_with_totals_and_the_handlers_to_write() -> None:
    lines = run().to_text(120).splitlines()
    assert lines[0].split() == ["calls", "primitive", "and", "operands", "what", "ran", "where"]
    assert lines[2].split() == [
        "1", "neg(Twice", "f32[2,3])", "negate", f"({short(at(negate))})", here(MODEL + 1),
    ]  # fmt: skip
    assert lines[4].split() == ["2", "sin(Twice", "f32[2,3])", "DENSE,", "48", "B", here(MODEL + 3)]
    assert lines[5].strip() == "· from the argument x through neg and neg"
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


def test_the_line_of_a_handler_is_whole_in_every_table() -> None:
    def handler_of_a_name_that_is_longer_than_its_column(x: Twice, /) -> Twice:
        return Twice(-x.half)

    handler = handler_of_a_name_that_is_longer_than_its_column
    table = tq.HandlerTable("long", ops.neg.to(handler))
    explanation = tq.explain(
        tq.use_implicit_args(lambda x: -x + jnp.concatenate([x] * 9).sum(), handlers=table)
    )(TWO)
    for width in (80, 100, 120):
        row = explanation.to_text(width).splitlines()[2]
        assert f":{handler.__code__.co_firstlineno})" in row
        assert len(row) <= width


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


def test_the_arguments_that_became_dense_are_told_with_their_paths() -> None:
    def both(params: Any) -> Any:
        return [jnp.sin(layer["w"]) for layer in params["layers"]]

    (line,) = run(both, {"layers": [{"w": TWO}, {"w": TWO}]}).lines
    assert line.arguments == ("params['layers'][0]['w']", "params['layers'][1]['w']")
    assert line.notes == ("from the argument params['layers'][0]['w'] and 1 more",)


def test_the_backward_pass_is_told_apart() -> None:
    explanation = run(jax.grad(lambda x: (x * x).sum()), TWO)
    assert [(line.call, line.backward) for line in explanation.lines] == [
        ("mul(Twice f32[2,3], Twice f32[2,3])", ""),
        ("mul(Twice f32[2,3], Array f32[2,3])", "in the transpose of mul"),
        ("mul(Array f32[2,3], Twice f32[2,3])", "in the transpose of mul"),
    ]


def test_each_use_of_a_jitted_function_and_each_body_counts_once() -> None:
    layer = jax.jit(lambda x: jnp.sin(-x))
    thrice = run(lambda x: layer(x) + layer(x) + layer(x))
    assert [(line.primitive, line.count) for line in thrice.lines] == [("neg", 3), ("sin", 3)]
    loop = run(lambda x: lax.scan(lambda c, _: (-c, None), x, None, length=3)[0])
    assert [(line.primitive, line.count) for line in loop.lines] == [("neg", 1)]
    branches = run(lambda x: lax.cond(True, lambda y: -y, jnp.sin, x))
    assert Counter({line.primitive: line.count for line in branches.lines}) == {
        "neg": 1,
        "sin": 1,
        "cond": 1,
    }


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


def test_what_no_handler_could_help_is_not_said_to_lack_one() -> None:
    def joined(x: Any) -> Any:
        return lax.cond(True, lambda y: y, lambda _: jnp.ones((2, 3)), x), float(x.sum())

    explanation = run(joined)
    assert explanation.missing == {"Twice": {"reduce_sum": 1}}
    assert explanation.totals[1:] == (
        "Twice: 1 primitive lacks a handler: reduce_sum x1",
        "Twice: became dense, and not for want of a handler, for cond x1",
    )


def test_a_run_without_implicit_arrays_says_so() -> None:
    assert str(run(model, jnp.ones(3))) == "No primitive met an implicit array."


def test_a_run_in_which_nothing_became_dense_says_so() -> None:
    assert run(lambda x: -x).totals == ("1 call ran a handler; nothing became dense.",)


def test_a_call_in_no_line_of_the_user_s_says_so() -> None:
    """Where Python itself has no frame of the user's: in a thread of a program in C, say."""
    known = tq.explain(jax.jit(tq.use_implicit_args(jnp.sin)))(TWO)
    (called,) = known.lines
    assert called.where is not None
    assert called.where.startswith(__file__)
    explanation = dataclasses.replace(known, lines=(dataclasses.replace(called, where=None),))
    assert explanation.to_text(100).splitlines()[2].endswith("  no line of yours")
    assert "no line of yours" in explanation._repr_html_()
    with pytest.raises(tq.MaterializationError, match=r"\(24 B\), at no line of yours\n"):
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
        "place": None,
        "bytes": 48,
        "dense": ["Twice"],
        "forbidden": False,
        "reasons": [],
        "arguments": ["x through neg and neg"],
        "remedy": "",
        "backward": "",
        "where": f"{__file__}:{MODEL + 3}",
    }
    assert (found["lines"][0]["handler"], found["lines"][0]["place"]) == ("negate", at(negate))
    assert found["function"] == "model"
    assert found["flow"]["parts"] == [
        {"line": 0, "count": 1}, {"line": 1, "count": 1}, {"line": 2, "count": 2},
    ]  # fmt: skip
    assert (found["handled"], found["materialized"], found["bytes"]) == (2, 2, 48)
    assert found["missing"] == {"Twice": {"sin": 2}}


class Kept(tq.ImplicitArray, materialization="error"):
    x: tq.ArrayValue

    def materialize(self) -> Any:
        return self.x


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "in jit"])
def test_what_a_run_would_refuse_is_told(wrap: Any) -> None:
    f = tq.use_implicit_args(wrap(lambda x: jnp.sin(x) * 2))
    found = tq.explain(f)(Kept(jnp.ones(3)))
    assert [line.forbidden for line in found.lines] == [True]
    assert "forbidden: where it runs, this is a MaterializationError" in str(found)
    assert "forbidden, and a MaterializationError in a run: 1 call of these" in str(found)
    with tq.materialization("allow", Kept):
        assert not any(line.forbidden for line in tq.explain(f)(Kept(jnp.ones(3))).lines)
    with tq.materialization("error"):
        assert all(line.forbidden for line in tq.explain(f)(Twice(jnp.ones(3))).lines)


def test_a_folder_of_any_name_is_no_part_of_a_handler_s() -> None:
    found: dict[str, Any] = {"Twice": Twice, "__name__": __name__}
    text = "def negated(x: Twice, /) -> Twice:\n    return Twice(-x.half)\n"
    exec(compile(text, "/models/My model (2)/rules.py", "exec", dont_inherit=True), found)
    table = tq.HandlerTable("t", ops.neg.to(found["negated"]))
    explained = tq.explain(tq.use_implicit_args(lambda x: -x, handlers=table))(TWO)
    assert "negated (My model (2)/rules.py:1)" in explained.to_text(180)
    page = explained._repr_html_()
    assert "<code>negated</code>" in page
    assert ">My model (2)/rules.py:1</code>" in page


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
    assert page.count('<div class="step dense">') == 1
    assert page.count('<div class="step fine">') == 2
    assert "Twice: 1 primitive lacks a handler: sin x2" in page
    assert "return jnp.sin(y) + jnp.sin(y)" in page
    assert f'title="{__file__}:{MODEL + 3}"' in page


def test_notebooks_show_the_same() -> None:
    fragment = run(lambda x: x + jnp.float32(1))._repr_html_()
    well_formed(fragment)
    assert "operand 2: rank 0, expected 2</li>" in fragment


def test_a_page_without_anything_on_it_is_whole_too() -> None:
    fragment = run(model, jnp.ones(3))._repr_html_()
    well_formed(fragment)
    assert "No primitive met an implicit array." in fragment


def test_what_users_wrote_is_escaped() -> None:
    def less(x: Any) -> Any:
        return -x if "<script>" and "&amp;" else x

    less.__name__ = "<b>less</b>"
    fragment = run(less)._repr_html_()
    well_formed(fragment)
    assert "explain(&lt;b&gt;less&lt;/b&gt;)" in fragment
    assert "&lt;script&gt;&quot; and &quot;&amp;amp;&quot;" in fragment


def test_the_flow_has_the_scopes_of_the_program_and_what_repeats_once() -> None:
    def layers(x: Any) -> Any:
        for number in range(3):
            with jax.named_scope(f"layer_{number}"):
                x = -x
                with jax.named_scope("inner"):
                    x = -x
        return jnp.sin(x)

    explanation = run(layers)
    assert explanation.to_dict()["flow"] == {
        "name": "",
        "times": 1,
        "parts": [
            {
                "name": "layer_0 … layer_2",
                "times": 3,
                "parts": [
                    {"line": 0, "count": 1},
                    {"name": "inner", "times": 1, "parts": [{"line": 1, "count": 1}]},
                ],
            },
            {"line": 2, "count": 1},
        ],
    }
    assert [line.count for line in explanation.lines] == [3, 3, 1]
    fragment = explanation._repr_html_()
    well_formed(fragment)
    assert fragment.count("<details open>") == 2
    assert "3 times" in fragment


def test_the_flow_shows_inner_functions_in_the_scopes_that_call_them() -> None:
    def inner(x: Any) -> Any:
        with jax.named_scope("in"):
            return -x

    def program(x: Any) -> Any:
        with jax.named_scope("outer"):
            x = jax.jit(inner)(x)
            x = jax.checkpoint(inner)(x)
            x = lax.scan(lambda c, _: (jax.jit(inner)(c), None), x, None, length=3)[0]
        return lax.cond(True, inner, lambda y: y, x)

    assert outline(run(program).flow) == {
        "outer": {"jit(inner) / in": 1, "checkpoint / in": 1, "scan of 3 / jit(inner) / in": 1},
        "cond / in": 1,
    }


def outline(scope: Any) -> Any:
    """The names in a flow, and how many calls are in each."""
    if all(isinstance(part, Step) for part in scope.parts):
        return sum(part.count for part in scope.parts)
    return {part.name: outline(part) for part in scope.parts}


def test_a_function_of_jax_s_own_is_no_scope() -> None:
    def squared(x: Any) -> Any:
        with jax.named_scope("outer"):
            return jnp.square(x)

    assert outline(run(squared).flow) == {"outer": 1}


def test_operands_of_other_shapes_are_other_lines() -> None:
    explanation = run(lambda x, y: [-each for each in (x, y, x)], TWO, Twice(jnp.ones(7)))
    assert [(line.call, line.count) for line in explanation.lines] == [
        ("neg(Twice f32[2,3])", 2),
        ("neg(Twice f32[7])", 1),
    ]


def test_rich_shows_the_same_in_colours() -> None:
    console = rich.console.Console(width=70, record=True, file=io.StringIO(), color_system="256")
    console.print(run())
    plain = console.export_text(clear=False)
    assert "neg(Twice f32[2,3])" in plain
    assert "DENSE, 48 B" in plain
    assert "Twice: 1 primitive lacks a handler: sin x2" in plain
    assert max(map(len, plain.splitlines())) <= 70
    assert "\x1b[1;33mDENSE, 48 B" in console.export_text(styles=True)


def test_a_prompt_shows_the_table() -> None:
    assert repr(run()) == str(run())


# --- what is explained ---------------------------------------------------------------------------


@pytest.mark.parametrize("given", [3, "model", None, TWO], ids=["int", "str", "None", "array"])
def test_what_is_no_function_is_refused(given: Any) -> None:
    with pytest.raises(
        TypeError, match=r"explain takes a function, not .*: explain\(f\)\(\*args\)"
    ):
        tq.explain(given)


def test_keywords_static_arguments_and_methods_are_explained() -> None:
    class Model:
        sign = -1

        @functools.partial(tq.use_implicit_args, handlers=TABLE)
        def apply(self, x: Any, *, often: int, mode: str = "none") -> Any:
            return [-x for _ in range(often)] if mode == "negate" else x

    @functools.partial(jax.jit, static_argnames="mode")
    def jitted(x: Any, *, mode: str) -> Any:
        return -x if mode == "negate" else x

    (line,) = tq.explain(Model().apply)(TWO, often=2, mode="negate").lines
    assert (line.primitive, line.count) == ("neg", 2)
    transformed = tq.use_implicit_args(jitted, handlers=TABLE)
    assert tq.explain(transformed)(TWO, mode="negate").handled == 1
    assert tq.explain(transformed)(TWO, mode="none").handled == 0


def test_an_error_of_the_function_comes_out_and_the_next_run_is_explained() -> None:
    def fails(x: Any) -> Any:
        raise ZeroDivisionError(-x)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            run(fails)
    assert run(lambda x: -x).handled == 1


def test_an_array_that_becomes_dense_for_a_branch_of_python_takes_that_branch() -> None:
    explanation = run(lambda x: -x if x.sum() > 11 else jnp.sin(x))
    assert [line.primitive for line in explanation.lines] == ["reduce_sum", "neg"]


def test_the_name_and_the_documentation_of_the_function_stay() -> None:
    def documented(x: Any) -> Any:
        """What it does."""
        return x

    assert tq.explain(documented).__name__ == "documented"
    assert tq.explain(documented).__doc__ == "What it does."


# --- assertions ----------------------------------------------------------------------------------


def test_a_materialization_fails_the_assertion_with_its_line() -> None:
    with pytest.raises(tq.MaterializationError) as caught:
        run().assert_no_materialization()
    assert str(caught.value).splitlines() == [
        "implicit arrays became dense:",
        f"  2 x sin(Twice f32[2,3]): became dense (48 B), at {__file__}:{MODEL + 3}",
        "    - no handler takes these operands of `sin`",
        "    - from the argument x through neg and neg",
        "Primitives that may be met go into allow=.",
    ]


def test_the_assertion_says_why_something_became_dense() -> None:
    with pytest.raises(tq.MaterializationError) as caught:
        run(lambda x: x + jnp.float32(1)).assert_no_materialization()
    assert str(caught.value).splitlines()[2:4] == [
        f"    - add_matrix ({at(add_matrix)}): operand 2: rank 0, expected 2",
        "    - from the argument x",
    ]


def test_what_is_allowed_and_other_classes_pass() -> None:
    for sin in ("sin", ops.sin, lax.sin_p):
        run().assert_no_materialization(allow=[sin])
    run().assert_no_materialization(Other)
    run(lambda x: -x).assert_no_materialization()
    with pytest.raises(tq.MaterializationError):
        run(jnp.sin, Other(jnp.ones(3))).assert_no_materialization(Other, allow=["cos"])
    with pytest.raises(tq.MaterializationError):
        run(jnp.sin, Other(jnp.ones(3))).assert_no_materialization(Twice)


@pytest.mark.parametrize(
    ("classes", "allow", "text"),
    [
        pytest.param((), "sin", "allow='sin': pass a set of names of primitives", id="text"),
        pytest.param(
            (), ["sim"], "allow={'sim'}: there is no primitive of that name", id="misspelt"
        ),
        pytest.param(
            ("sin",),
            (),
            "assert_no_materialization('sin'): give classes; primitives that may be met go into "
            "allow=.",
            id="no class",
        ),
    ],
)
def test_what_cannot_be_asked_about_is_refused(classes: Any, allow: Any, text: str) -> None:
    with pytest.raises(tq.UsageError) as caught:
        run().assert_no_materialization(*classes, allow=allow)
    assert str(caught.value).startswith(text)


def test_many_failures_stay_short() -> None:
    def wide(x: Any) -> Any:
        return [getattr(jnp, name)(x) for name in NAMES]

    with pytest.raises(tq.MaterializationError) as caught:
        run(wide).assert_no_materialization()
    assert len(str(caught.value)) < 4000
    assert f"  ... and {len(NAMES) - 8} more\n" in str(caught.value)


NAMES = ["sin", "cos", "tan", "tanh", "arctan", "arcsinh", "sinh", "cosh", "floor", "ceil", "expm1",
         "log1p"]  # fmt: skip
