"""What a user sees of an error: its text, and a traceback that ends at a line of the user's."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from tests.implicit_world import close
from typedqax import ops
from typedqax._errors import UsageError, shortened, shown_argument

transformed: Callable[..., Any] = tq.use_implicit_args

ROWS, COLUMNS = jnp.full((3, 2), 7.125), jnp.full((4, 2), 7.125)


class Low(tq.ImplicitArray, materialization="allow"):
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.a @ self.b.T


class Loud(tq.ImplicitArray):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


class Strict(tq.ImplicitArray, materialization="error"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


class Itself(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self * 2.0


class Fails(tq.ImplicitArray):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        raise ZeroDivisionError("my own")


def swapped(x: Low, /) -> Low:
    return Low(x.b, x.a)


def endless(x: Low, /) -> Any:
    return -x


def declining(x: Low, /) -> Low:
    return tq.DECLINE  # type: ignore[return-value]  # the mistake


def negative(x: Low, y: tq.ArrayValue, /) -> Any:
    return x


def positive(x: tq.ArrayValue, y: Low, /) -> Any:
    return y


def with_unknown(x: Flaot[Low], /) -> Any:  # type: ignore[name-defined]  # the mistake
    return x


def generates(x: Any) -> Any:
    yield x


async def later(x: Any) -> Any:
    return x


async def generates_later(x: Any) -> Any:
    yield x


SWAPPED = tq.HandlerTable("swapped", ops.neg.to(swapped))
ENDLESS = tq.HandlerTable("endless", ops.neg.to(endless))
DECLINING = tq.HandlerTable("declining", ops.neg.to(declining))
LOW = Low(ROWS, COLUMNS)


def in_an_error_block(f: Callable[[Any], Any], x: Any) -> Any:
    with tq.materialization("error"):
        return transformed(f)(x)


def defines_a_class() -> Any:
    class Hidden(tq.ImplicitArray):
        sum: tq.ArrayValue  # type: ignore[assignment]  # the mistake

        def materialize(self) -> Array:
            return self.sum


PROVOKED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "ambiguous": (
        lambda: tq.HandlerTable("t", ops.mul.to(negative), ops.mul.to(positive)),
        tq.AmbiguityError,
    ),
    "twice": (
        lambda: tq.HandlerTable("t", ops.neg.to(swapped), ops.neg.to(endless)),
        tq.DuplicateHandlerError,
    ),
    "an annotation": (lambda: ops.neg.to(with_unknown), tq.SignatureError),
    "a decorator": (lambda: tq.primitive_handler("tanhh")(lambda p, x: x), tq.SignatureError),
    "a class": (defines_a_class, tq.SignatureError),
    "fields": (lambda: Low(ROWS, ROWS.T), tq.ContractError),
    "a result": (lambda: transformed(lambda w: -w, handlers=SWAPPED)(LOW), tq.ContractError),
    "a decline": (lambda: transformed(lambda w: -w, handlers=DECLINING)(LOW), tq.ContractError),
    "endless": (lambda: transformed(lambda w: -w, handlers=ENDLESS)(LOW), tq.ContractError),
    "itself": (lambda: Itself(ROWS, shape=(3, 2), dtype=jnp.float32) + 1.0, tq.ContractError),
    "no shape": (lambda: Itself(ROWS).shape, tq.UninitializedAval),
    "a failing materialize": (lambda: Fails(ROWS).dtype, tq.UninitializedAval),
    "a sliced field": (lambda: jax.tree.map(lambda x: x[0, 0], LOW).shape, tq.ShapeError),
    "strict": (lambda: np.asarray(Strict(ROWS)), tq.MaterializationError),
    "strict operator": (lambda: Strict(ROWS) + 1.0, tq.MaterializationError),
    "forbidden": (lambda: in_an_error_block(jnp.sin, LOW), tq.MaterializationError),
    "no table": (lambda: tq.install(3), tq.UsageError),  # type: ignore[arg-type]  # the mistake
    "no rule": (lambda: tq.HandlerTable("t", 3), tq.UsageError),  # type: ignore[arg-type]  # as above
    "no policy": (lambda: tq.materialization("never"), tq.UsageError),  # type: ignore[arg-type]  # as above
    "no switch": (lambda: tq.checks("off"), tq.UsageError),  # type: ignore[arg-type]  # as above
    "no function": (lambda: tq.use_implicit_args(3), tq.UsageError),  # type: ignore[call-overload]  # as above
    "no handlers": (lambda: tq.use_implicit_args(jnp.sin, handlers=3), tq.UsageError),  # type: ignore[call-overload]  # as above
    "no primitive": (lambda: tq.default_handler(3, 4), tq.UsageError),  # type: ignore[call-overload]  # as above
    "no op": (lambda: tq.which(3), tq.UsageError),  # type: ignore[arg-type]  # as above
    "nothing to explain": (lambda: tq.explain(3), tq.UsageError),  # type: ignore[arg-type]  # as above
    "nothing to check": (lambda: tq.check("not_imported_at_all"), tq.UsageError),
    "no table to take out": (lambda: tq.uninstall(3), tq.UsageError),  # type: ignore[arg-type]  # as above
    "a run that is not to make anything dense": (
        lambda: tq.explain(transformed(jnp.sin))(LOW).assert_no_materialization(),
        tq.MaterializationError,
    ),
    "an explanation that fails": (
        lambda: tq.explain(transformed(lambda w: -w, handlers=SWAPPED))(LOW),
        tq.ContractError,
    ),
    "a generator": (lambda: transformed(generates), tq.UsageError),
    "a coroutine": (lambda: transformed(later), tq.UsageError),
    "an asynchronous generator": (lambda: transformed(generates_later), tq.UsageError),
    "a shape": (lambda: Low(ROWS, COLUMNS, shape=ROWS), tq.UsageError),  # type: ignore[arg-type]  # as above
    "a primitive": (lambda: jax.jit(lambda w: lax.sin(w))(LOW), tq.TypedQaxError),
}


def frames_of(error: BaseException) -> list[str]:
    """The files of a traceback, but for Python's own (the metaclass of a class statement)."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return [file for file in files if not file.startswith("<frozen ")]


@pytest.mark.parametrize(("provoke", "kind"), PROVOKED.values(), ids=PROVOKED.keys())
def test_an_error_ends_at_a_line_of_the_user_s_and_shows_no_numbers(
    provoke: Callable[[], Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        provoke()
    files = frames_of(caught.value)
    assert files[-1] == __file__
    assert not any("typedqax/_" in file for file in files)
    assert isinstance(caught.value, tq.TypedQaxError)
    text = str(caught.value)
    assert 20 < len(text) < 4000
    assert "7.125" not in text


AROUND: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda w: jnp.sum(tq.materialize(f(w)))),
    "vmap": lambda f: lambda w: jax.vmap(f)(jax.tree.map(lambda x: x[None], w)),
    "scan": lambda f: lambda w: lax.scan(lambda c, _: (c, f(w)), 0.0, None, length=2)[1],
    "checkpoint": lambda f: jax.checkpoint(f),
    "cond": lambda f: lambda w: lax.cond(True, f, f, w),
}


@pytest.mark.parametrize("side", ["inside", "outside"])
@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND.keys())
@pytest.mark.parametrize(
    ("handlers", "f", "policy", "kind"),
    [
        pytest.param(SWAPPED, lambda w: -w, "allow", tq.ContractError, id="contract"),
        pytest.param(SWAPPED, lambda w: jnp.sin(w), "error", tq.MaterializationError, id="dense"),
    ],
)
def test_an_error_under_transformations_ends_at_a_line_of_the_user_s(
    handlers: tq.HandlerTable,
    f: Callable[[Any], Any],
    policy: Any,
    kind: type[Exception],
    around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
    side: str,
) -> None:
    inside = transformed(around(f), handlers=handlers)
    outside = around(transformed(f, handlers=handlers))
    with pytest.raises(kind) as caught, tq.materialization(policy):
        (inside if side == "inside" else outside)(LOW)
    assert frames_of(caught.value)[-1] == __file__
    assert not any("typedqax/_" in file for file in frames_of(caught.value))


PROGRAM = """\
import jax.numpy as jnp
import typedqax as tq

class Low(tq.ImplicitArray, materialization="error"):
    a: tq.ArrayValue
    def materialize(self):
        return self.a

def model(w):
    return jnp.sin(w)

tq.use_implicit_args(model)(Low(jnp.ones(3)))
"""


def run(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(text)
    home = str(Path(tq.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": home, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program_s_traceback_is_the_user_s_alone_unless_jax_is_told_otherwise(
    tmp_path: Path,
) -> None:
    short = run(PROGRAM, tmp_path).stderr
    files = re.findall(r'File "([^"]*)", line (\d+)', short)
    assert files == [(str(tmp_path / "program.py"), "12"), (str(tmp_path / "program.py"), "10")]
    assert "typedqax._errors.MaterializationError: Low f32[3] would have become dense" in short
    whole = run(PROGRAM, tmp_path, JAX_TRACEBACK_FILTERING="off").stderr
    assert "_materialization.py" in whole


def test_the_switch_of_checks_is_spelt_right_or_refused(tmp_path: Path) -> None:
    done = run("import typedqax\n", tmp_path, TYPEDQAX_CHECKS="of")
    assert done.returncode != 0
    assert "UsageError: TYPEDQAX_CHECKS='of': it is 'on' or 'off'." in done.stderr


# --- texts ----------------------------------------------------------------------------------------


def text_of(provoke: Callable[[], Any]) -> str:
    with pytest.raises(tq.TypedQaxError) as caught:
        provoke()
    return str(caught.value)


TEXTS: dict[str, tuple[Callable[[], Any], str]] = {
    "generator": (
        lambda: transformed(generates),
        (
            "use_implicit_args: generates is a generator function, whose body runs after the call, "
            "when the transform is over. Transform what it calls, or let it return a list."
        ),
    ),
    "no function": (
        lambda: tq.use_implicit_args(ROWS),  # type: ignore[call-overload]  # the mistake
        "use_implicit_args takes a function, not <ArrayImpl>.",
    ),
    "no switch": (
        lambda: tq.checks("off"),  # type: ignore[arg-type]  # the mistake
        "checks('off'): give True or False.",
    ),
    "itself": (
        lambda: Itself(ROWS, shape=(3, 2), dtype=jnp.float32).materialize(),
        (
            f"Itself.materialize ({__file__}:{Itself.materialize.__code__.co_firstlineno}) "
            "computes with the Itself itself, which has to become dense for "
            "that, and so for ever.\n  Compute with its fields."
        ),
    ),
}


@pytest.mark.parametrize(("provoke", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_what_is_wrong_is_said(provoke: Callable[[], Any], text: str) -> None:
    assert text_of(provoke) == text


@pytest.mark.parametrize("name", PROVOKED)
@pytest.mark.parametrize("send", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_can_be_copied_and_sent_to_other_processes(name: str, send: Any) -> None:
    provoke, kind = PROVOKED[name]
    with pytest.raises(kind) as caught:
        provoke()
    error = caught.value
    sent = send(error)
    assert (type(sent), str(sent), vars(sent)) == (type(error), str(error), vars(error))


def test_a_failing_materialize_is_named_with_its_place_and_is_the_cause() -> None:
    with pytest.raises(tq.UninitializedAval) as caught:
        _ = Fails(ROWS).shape
    line = Fails.materialize.__code__.co_firstlineno + 1
    assert (
        f"its materialize() raises ZeroDivisionError: my own ({__file__}:{line}), evaluated "
        f"abstractly for x=f32[3,2]. Mend materialize(). Or give them in one of these ways: "
    ) in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        pytest.param("one two three", "one two three", id="that fits"),
        pytest.param("one two three, four", "one two three…", id="between words"),
        pytest.param("one," * 9, "one,one,one,on…", id="without words"),
    ],
)
def test_a_text_is_cut_between_words(text: str, short: str) -> None:
    assert shortened(text, 15) == short


def test_a_missing_param_is_named_by_jax_and_explained() -> None:
    for apply in (
        lambda: tq.default_handler(lax.reduce_sum_p, LOW),
        lambda: ops.reduce_sum.bind(LOW),  # type: ignore[call-arg]  # the mistake
    ):
        with pytest.raises(TypeError, match="'axes'") as caught:
            apply()
        (note,) = [n for n in caught.value.__notes__ if n.startswith("`reduce_sum` was applied")]
        assert "typedqax.ops.reduce_sum.params lists them." in note
        assert frames_of(caught.value)[-1] == __file__


def test_a_usage_error_is_what_python_raises_for_wrong_arguments() -> None:
    assert issubclass(UsageError, TypeError)
    assert issubclass(UsageError, ValueError)
    assert issubclass(UsageError, tq.TypedQaxError)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(ROWS, "<ArrayImpl>", id="array"),
        pytest.param(LOW, "<Low>", id="implicit array"),
        pytest.param(Low, "Low", id="class"),
        pytest.param("x" * 500, repr("x" * 500)[:37] + " ... " + repr("x" * 500)[-37:], id="text"),
        pytest.param(None, "None", id="none"),
        pytest.param(run, "run", id="function"),
    ],
)
def test_an_argument_is_shown_without_its_contents(value: object, text: str) -> None:
    assert shown_argument(value) == text


def test_dataclasses_take_the_tracer_for_what_it_stands_for() -> None:
    f = transformed(lambda w: dataclasses.replace(w, a=2.0 * w.a) + 1.0)
    close(f(LOW), 2.0 * ROWS @ COLUMNS.T + 1.0)
    names = transformed(lambda w: [field.name for field in dataclasses.fields(w)])
    assert names(LOW) == ["a", "b"]
