"""Help for users' tests: handlers are held against the dense path; fixtures for pytest."""

from __future__ import annotations

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
from typedqax import arrays, ops
from typedqax.testing import check_handlers, explained, forbid_materialization  # noqa: F401  # fixtures

pytestmark = pytest.mark.without_leak_checks  # it compares many numbers, but for the first test


class Twice(tq.ImplicitArray):
    """Twice its half."""

    half: Float[tq.ArrayValue, "..."]

    def materialize(self) -> Float[Array, "..."]:
        return 2 * self.half


def twice(*shape: int) -> Twice:
    size = int(np.prod(shape))
    return Twice(jnp.arange(1, size + 1, dtype=jnp.float32).reshape(shape) / 3)


def negate(x: Twice, /) -> Twice:
    return Twice(-x.half)


def scale(x: Twice, y: Float[Array, ""], /) -> Twice:
    return Twice(x.half * y)


def broken(*rules: Any) -> str:
    """What is said of handlers of which one is wrong."""
    table = tq.HandlerTable("broken", *rules)
    with pytest.raises(AssertionError) as caught:
        check_handlers(Twice, [twice(6), twice(2)], handlers=table)
    text = str(caught.value)
    assert len(text) < 4000
    return text


def place(function: Any) -> str:
    return f"{function.__name__} ({__file__}:{function.__code__.co_firstlineno})"


# --- what is right -------------------------------------------------------------------------------


def test_right_handlers_pass_and_are_listed() -> None:
    table = tq.HandlerTable("t", ops.neg.to(negate), ops.mul.to(scale, commutative=True))
    with jax.checking_leaks():
        report = check_handlers(Twice, [twice(3)], handlers=table)
    assert report.reached == (f"{place(scale)}: mul", f"{place(negate)}: neg")
    assert report.unreached == ()
    assert str(report).splitlines() == [
        "3 calls agree with the dense path. Handlers that ran:",
        f"  {place(scale)}: mul",
        f"  {place(negate)}: neg",
    ]


def test_installed_handlers_are_checked_too() -> None:
    with tq.installed(tq.HandlerTable("t", ops.neg.to(negate))):
        assert check_handlers(Twice, [twice(3)]).reached == (f"{place(negate)}: neg",)


def test_a_handler_that_no_sample_reaches_is_listed_and_may_be_a_failure() -> None:
    def solve(a: Array, x: Twice, /, **params: Any) -> Array:
        return ops.triangular_solve.bind(a, x.materialize(), **params)

    def solved(x: Any) -> Any:
        return lax.linalg.triangular_solve(jnp.eye(2), x, left_side=True)

    table = tq.HandlerTable("t", ops.triangular_solve.to(solve), ops.neg.to(negate))
    report = check_handlers(Twice, [twice(2, 2)], handlers=table)
    assert report.unreached == (place(solve),)
    with pytest.raises(AssertionError, match="Handlers that no call reached:\n  solve"):
        check_handlers(Twice, [twice(2, 2)], handlers=table, reach_all=True)
    found = check_handlers(Twice, [twice(2, 2)], handlers=table, reach_all=True, calls=[solved])
    assert found.unreached == ()


# --- what was not tried --------------------------------------------------------------------------


def nothing_ran(cls: Any, *examples: Any, **keywords: Any) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        check_handlers(cls, examples, **keywords)
    assert len(str(caught.value)) < 4000
    return str(caught.value).splitlines()


def test_a_check_in_which_no_handler_ran_is_a_failure_that_names_the_table_not_given() -> None:
    class Alone(tq.ImplicitArray):
        half: Float[tq.ArrayValue, "..."]

        def materialize(self) -> Float[Array, "..."]:
            return 2 * self.half

    def flip(x: Alone, /) -> Alone:
        return Alone(-x.half)

    alone = Alone(jnp.ones(3))
    assert nothing_ran(Alone, alone) == [
        "check_handlers(Alone, ...): no handler ran, so nothing was compared.",
        "No installed table, and none given, has a handler for Alone.",
        "Declare some: HandlerTable(name, ops.<primitive>.to(handler), ...).",
    ]
    table = tq.HandlerTable("forgotten", ops.neg.to(flip))
    lines = nothing_ran(Alone, alone)
    assert f"  'forgotten' ({table.origin.place}): {place(flip)} for neg" in lines
    assert lines[-1] == (
        "Give the table: check_handlers(Alone, ..., handlers=<the table>); or install it."
    )
    assert check_handlers(Alone, [alone], handlers=table).calls == 1


def test_a_table_made_of_one_not_given_is_not_named_again() -> None:
    class Again(tq.ImplicitArray):
        x: Float[tq.ArrayValue, "..."]

        def materialize(self) -> Float[Array, "..."]:
            return jnp.asarray(self.x)

    def flip(x: Again, /) -> Again:
        return Again(-x.x)

    first = tq.HandlerTable("first", ops.neg.to(flip))
    second = tq.HandlerTable("second", first)
    text = "\n".join(nothing_ran(Again, Again(jnp.ones(3))))
    assert "'first'" in text
    assert repr(second.name) not in text


def test_a_check_of_which_all_is_skipped_is_a_failure() -> None:
    table = tq.HandlerTable("t", ops.neg.to(negate))
    lines = nothing_ran(Twice, twice(3), handlers=table, skip=["neg"])
    assert lines[1] == (
        "No installed table, and none given, has a handler for Twice, but for those skipped (neg)."
    )


def test_a_check_whose_samples_reach_no_handler_asks_for_calls() -> None:
    def solve(a: Array, x: Twice, /, **params: Any) -> Array:
        return ops.triangular_solve.bind(a, x.materialize(), **params)

    table = tq.HandlerTable("t", ops.triangular_solve.to(solve))
    lines = nothing_ran(Twice, twice(2, 2), handlers=table)
    assert lines[1:4] == [
        "Handlers that no call reached:",
        f"  {place(solve)}",
        "Give functions of an example that reach them: calls=[...].",
    ]


# --- what is wrong -------------------------------------------------------------------------------


def test_wrong_numbers_are_told_with_the_smallest_call_and_the_handler_s_place() -> None:
    def wrong(x: Twice, /) -> Twice:
        return x

    lines = broken(ops.neg.to(wrong)).splitlines()
    assert lines[0] == f"handler {place(wrong)} for `neg` is not the dense path:"
    assert lines[1] == "  call: neg(Twice f32[2])"
    assert lines[2].startswith("  the result differs by up to 2.67 in 2 of 2 places (")
    assert lines[3].startswith("It is the smallest of ")
    assert lines[4].endswith(f"x handler {place(wrong)} for `neg`")


def test_a_wrong_derivative_is_told() -> None:
    def wrong(x: Twice, /) -> Twice:
        return Twice(-lax.stop_gradient(x.half))

    text = broken(ops.neg.to(wrong))
    assert "  its tangent (jvp) differs by up to 2 in 2 of 2 places" in text


def test_of_slopes_that_are_infinite_nothing_is_told() -> None:
    def root(x: Twice, /, **params: Any) -> Array:
        return jnp.exp(0.5 * jnp.log(2 * x.half))  # at zero, its slope is 0 * inf

    table = tq.HandlerTable("root", ops.sqrt.to(root))
    check_handlers(Twice, [Twice(jnp.array([0.0, 1.0, 4.0]))], handlers=table)


def test_what_is_wrong_only_outside_of_jit_is_told() -> None:
    def wrong(x: Twice, /) -> Twice:
        return negate(x) if isinstance(x.half, jax.core.Tracer) else x

    assert "  the result outside of jit differs by up to 2.67 in 2" in broken(ops.neg.to(wrong))


def test_what_a_handler_raises_is_told() -> None:
    def wrong(x: Twice, /) -> Twice:
        raise ZeroDivisionError("by no means")

    text = broken(ops.neg.to(wrong))
    assert "  the result raises ZeroDivisionError: by no means" in text


def test_a_broken_contract_is_told() -> None:
    def wrong(x: Twice, /, *, axes: tuple[int, ...], **params: Any) -> Array:
        return jnp.zeros((7,))

    text = broken(ops.reduce_sum.to(wrong))
    assert "reduce_sum(Twice f32[2], axes=(0,))" in text
    assert "raises ContractError: " in text


class Diagonal(tq.ImplicitArray):
    """A diagonal matrix, of which any two have the same product over any one axis of each."""

    d: Float[tq.ArrayValue, "n"]

    def materialize(self) -> Float[Array, "n n"]:
        return jnp.diag(jnp.asarray(self.d))


def product(a: Float[Diagonal, "n n"], b: Float[Diagonal, "n n"], /, **params: Any) -> Diagonal:
    return Diagonal(a.d * b.d)


def test_two_implicit_operands_are_contracted_in_every_way() -> None:
    table = tq.HandlerTable("t", ops.dot_general.to(product))
    with pytest.raises(
        AssertionError, match=r"^handler product .* is not the dense path:"
    ) as caught:
        check_handlers(Diagonal, [Diagonal(jnp.array([2.0, 3.0]))], handlers=table)
    assert f"handler product for `dot_general` ({place(product)[9:]} returned" in str(caught.value)


def test_a_handler_of_any_operands_meets_each_contraction_of_two_implicit_ones() -> None:
    met = set()

    def dot(x: Twice, y: Twice | Array, /, *, dimension_numbers: Any, **params: Any) -> Array:
        if isinstance(y, Twice):
            met.add(dimension_numbers)
        own = y.materialize() if isinstance(y, Twice) else y
        return ops.dot_general.bind(
            x.materialize(), own, dimension_numbers=dimension_numbers, **params
        )

    check_handlers(Twice, [twice(2, 2)], handlers=tq.HandlerTable("t", ops.dot_general.to(dot)))
    none: Any = ((), ())
    assert met >= {
        (((0, 1), (0, 1)), none),
        (((0, 1), (1, 0)), none),
        (((), ()), none),
        (((), ()), ((0,), (0,))),
        (((1,), (1,)), ((0,), (0,))),
        (((1,), (0,)), none),
        (((0,), (0,)), none),
        (((0,), (1,)), none),
        (((1,), (1,)), none),
    }


def test_wrong_numbers_within_the_tolerance_pass() -> None:
    def rough(x: Twice, /) -> Twice:
        return Twice(-1.001 * x.half)

    table = tq.HandlerTable("t", ops.neg.to(rough))
    with pytest.raises(AssertionError):
        check_handlers(Twice, [twice(3)], handlers=table)
    assert check_handlers(Twice, [twice(3)], handlers=table, tolerance=0.01).calls == 1


def test_what_means_to_be_different_is_skipped() -> None:
    def wrong(x: Twice, /) -> Twice:
        return x

    table = tq.HandlerTable("t", ops.neg.to(wrong), ops.mul.to(scale))
    report = check_handlers(Twice, [twice(3)], handlers=table, skip=["neg"])
    assert report.reached == (f"{place(scale)}: mul",)


def test_examples_of_another_class_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^check_handlers\(Twice, ...\): an example is a Eye\.$"):
        check_handlers(Twice, [arrays.Eye(3)])
    with pytest.raises(ValueError, match="there are no examples"):
        check_handlers(Twice, [])
    one: Any = twice(3)
    with pytest.raises(TypeError, match=r"examples is a list of arrays, not an array: check_"):
        check_handlers(Twice, one)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        pytest.param(
            lambda: check_handlers(float, [1.0]),  # type: ignore[type-var]  # the mistake
            "check_handlers(float, ...): give a subclass of ImplicitArray first.",
            id="another class",
        ),
        pytest.param(
            lambda: check_handlers(Twice, 3),  # type: ignore[arg-type]  # the mistake
            (
                "check_handlers(Twice, ...): examples is a list of arrays, not 3: "
                "check_handlers(Twice, [example])."
            ),
            id="number for examples",
        ),
        pytest.param(
            lambda: check_handlers(Twice, [twice(3)], handlers=[]),  # type: ignore[arg-type]  # the mistake
            "check_handlers(Twice, ..., handlers=<list>): give a HandlerTable.",
            id="list for a table",
        ),
        pytest.param(
            lambda: check_handlers(Twice, [twice(3)], skip="neg"),
            "check_handlers(Twice, ..., skip='neg'): give a list of names of primitives, ['neg'].",
            id="text for a list",
        ),
    ],
)
def test_what_it_does_not_take_is_refused_in_a_sentence(ask: Callable[[], Any], text: str) -> None:
    with pytest.raises(tq.UsageError) as caught:
        ask()
    assert str(caught.value) == text
    frames = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert frames == {__file__}


# --- planted bugs --------------------------------------------------------------------------------


def of_another_dtype(x: Twice, /) -> Array:
    return (-2 * x.half).astype(jnp.bfloat16)


def of_another_shape(x: Twice, /) -> Array:
    return -2 * x.half[None]


def wrong_if_large(x: Twice, /) -> Twice:
    return Twice(-x.half) if x.half.size < 5 else Twice(x.half)


def wrong_in_one_place(x: Twice, /) -> Twice:
    return Twice((-x.half).at[..., -1].multiply(1.001))


def wrong_under_vmap(x: Twice, /) -> Twice:
    @jax.custom_batching.custom_vmap
    def flip(half: Array) -> Array:
        return -half

    @flip.def_vmap
    def rule(size: int, batched: Any, half: Array) -> tuple[Array, bool]:
        return half, True

    return Twice(flip(x.half))


def refused_under_vmap(x: Twice, /) -> Twice:
    kind = jax.ShapeDtypeStruct(x.half.shape, x.half.dtype)
    return Twice(jax.pure_callback(lambda half: -half, kind, x.half))


def tangent_twice(x: Twice, /) -> Twice:
    @jax.custom_jvp
    def flip(half: Array) -> Array:
        return -half

    @flip.defjvp
    def rule(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return -primals[0], -2 * tangents[0]

    return Twice(flip(x.half))


def cotangent_of_the_wrong_sign(x: Twice, /) -> Twice:
    @jax.custom_vjp
    def flip(half: Array) -> Array:
        return -half

    flip.defvjp(lambda half: (-half, None), lambda _, ct: (ct,))
    return Twice(flip(x.half))


def keeps_what_it_saw(x: Twice, /) -> Twice:
    return Twice(-_SEEN.setdefault(x.half.shape, x.half))


_SEEN: dict[Any, Any] = {}


def minus_the_other_way_round(x: Twice, y: Float[Array, "..."], /) -> Twice:
    return Twice(y / 2 - x.half)


def by_the_first_number(x: Twice, y: Array, /) -> Twice:
    return Twice(x.half * jnp.ravel(y)[0])


def over_the_first_axis(x: Twice, /, *, axes: Any, **params: Any) -> Array:
    return 2 * x.half.sum(0) if x.half.ndim == 1 or axes == (0,) else 2 * x.half.mean(axes)


def reversed_axes(x: Twice, /, *, permutation: Any) -> Twice:
    return Twice(x.half.T)


def the_first_row_always(x: Twice, i: Array, /, **params: Any) -> Array:
    return 2 * ops.gather.bind(x.half, i * 0, **params)


def largest_magnitude(x: Twice, /, *, axes: Any, **params: Any) -> Array:
    return 2 * jnp.max(jnp.abs(x.half), axes)


def only_of_dense_ones(x: Twice, y: tq.ArrayValue, /) -> Twice:
    return Twice(x.half * jnp.asarray(np.asarray(1.0), x.dtype) * lax.neg(lax.neg(y)))


PLANTED: dict[str, tuple[Any, Any, str]] = {
    "dtype": (ops.neg, of_another_dtype, "returned Array bf16"),
    "shape": (ops.neg, of_another_shape, "returned Array f32[1,"),
    "large ones": (ops.neg, wrong_if_large, "the result differs"),
    "one place": (ops.neg, wrong_in_one_place, "the result differs"),
    "vmap gives other numbers": (ops.neg, wrong_under_vmap, "the result under vmap differs"),
    "vmap is refused": (ops.neg, refused_under_vmap, "the result under vmap raises"),
    "jvp": (ops.neg, tangent_twice, "its tangent (jvp) differs"),
    "vjp": (ops.neg, cotangent_of_the_wrong_sign, "the cotangents of the fields (vjp) differs"),
    "state": (ops.neg, keeps_what_it_saw, "the result raises"),
    "order of operands": (ops.sub, minus_the_other_way_round, "the result differs"),
    "broadcasting": (ops.mul, by_the_first_number, "the result differs"),
    "axes": (ops.reduce_sum, over_the_first_axis, "reduce_sum(Twice f32[2,3], axes=(1,))"),
    "permutation": (ops.transpose, reversed_axes, "permutation=(0, 1)"),
    "indices": (ops.gather, the_first_row_always, "the result differs"),
    "signs": (ops.reduce_max, largest_magnitude, "the result differs"),
    "implicit operands": (ops.mul, only_of_dense_ones, "mul(Twice f32[4], Twice f32[4])"),
}


LEFT_OUT = {  # what these handlers have no derivatives for, whether they are right or not
    wrong_under_vmap: ["vjp"],
    refused_under_vmap: ["jvp", "vjp"],
    cotangent_of_the_wrong_sign: ["jvp"],
}


@pytest.mark.parametrize(("op", "handler", "said"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_is_found(op: Any, handler: Any, said: str) -> None:
    _SEEN.clear()
    examples = [Twice(numbers(1, 4)), Twice(numbers(2, 2, 3))]
    without = LEFT_OUT.get(handler, [])
    table = tq.HandlerTable("planted", op.to(handler))
    with pytest.raises(AssertionError) as caught:
        check_handlers(Twice, examples, handlers=table, without=without)
    assert said in str(caught.value), str(caught.value)
    assert place(handler) in str(caught.value)


def test_what_forward_mode_refuses_may_be_left_out() -> None:
    def flip(x: Twice, /) -> Twice:
        @jax.custom_vjp
        def negative(half: Array) -> Array:
            return -half

        negative.defvjp(lambda half: (-half, None), lambda _, ct: (-ct,))
        return Twice(negative(x.half))

    table = tq.HandlerTable("t", ops.neg.to(flip))
    with pytest.raises(AssertionError, match=r"its tangent \(jvp\) raises TypeError: can't apply"):
        check_handlers(Twice, [twice(3)], handlers=table)
    assert check_handlers(Twice, [twice(3)], handlers=table, without=["jvp"]).comparisons == 5


@pytest.mark.parametrize("without", ["jvp", ["value"]], ids=["a string", "no transformation"])
def test_what_cannot_be_left_out_is_refused(without: Any) -> None:
    table = tq.HandlerTable("t", ops.neg.to(negate))
    with pytest.raises(ValueError, match="a list of some of 'jvp', 'vjp', 'vmap' and 'scan'"):
        check_handlers(Twice, [twice(3)], handlers=table, without=without)


def test_a_handler_of_any_other_implicit_array_is_given_one() -> None:
    def times(x: Twice, y: tq.ImplicitArray, /) -> Twice:
        return Twice(x.half * tq.materialize(y))

    def times_it(x: tq.ImplicitArray, y: Twice, /) -> Twice:
        return Twice(tq.materialize(x) * y.half)

    def times_itself(x: Twice, y: Twice, /) -> Twice:
        return Twice(2 * x.half * y.half)

    rules = [ops.mul.to(each) for each in (times, times_it, times_itself)]
    table = tq.HandlerTable("t", *rules)
    report = check_handlers(Twice, [twice(3)], handlers=table, reach_all=True)
    assert len(report.reached) == 3


def test_a_materialize_that_raises_is_not_taken_for_calls_that_jax_refuses() -> None:
    class Broken(tq.ImplicitArray):
        x: Float[tq.ArrayValue, "..."]

        def compute_shape(self) -> tuple[int, ...]:
            return tuple(self.x.shape)

        def compute_dtype(self) -> Any:
            return self.x.dtype

        def materialize(self) -> Float[Array, "..."]:
            raise ZeroDivisionError("of its own")

    def flip(x: Broken, /) -> Broken:
        return Broken(-x.x)

    table = tq.HandlerTable("t", ops.neg.to(flip))
    with pytest.raises(ZeroDivisionError, match="of its own"):
        check_handlers(Broken, [Broken(jnp.ones(3))], handlers=table)


def test_a_call_asked_for_that_dense_arrays_refuse_is_a_failure() -> None:
    def wrong(x: Any) -> Any:
        return x.reshape(7)

    table = tq.HandlerTable("t", ops.neg.to(negate))
    with pytest.raises(AssertionError, match=r"the result on dense arrays raises TypeError: .*7"):
        check_handlers(Twice, [twice(3)], handlers=table, calls=[wrong])


# --- the ready-made arrays -----------------------------------------------------------------------


def numbers(seed: int, *shape: int) -> Array:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape), jnp.float32)


READY = {
    "eye": (arrays.Eye(3), arrays.EYE),
    "lora": (
        arrays.LoraMatrix(numbers(1, 2, 3), numbers(2, 2, 2), numbers(3, 3, 2), alpha=0.5),
        arrays.LORA,
    ),
    "int8": (
        arrays.Int8Matrix(
            values=jnp.asarray([[3, -50, 127], [-127, 9, 80]], jnp.int8),
            scale=abs(numbers(1, 1, 3)) / 64,
        ),
        arrays.INT8,
    ),
    "zeros": (arrays.Zeros(shape=(2, 3), dtype=jnp.float32), arrays.ZEROS),
    # What is masked stands for nothing, so that only a mask without holes has a dense path.
    "masked": (arrays.MaskedArray(numbers(1, 2, 3), jnp.ones((2, 3), bool)), arrays.MASKED),
}


@pytest.mark.parametrize(("example", "table"), READY.values(), ids=READY.keys())
def test_the_ready_made_arrays_give_what_the_dense_path_gives(
    example: tq.ImplicitArray, table: tq.HandlerTable
) -> None:
    # Rows out of bounds are missing in a masked array, whatever they were to be filled with.
    skip = ("gather",) if isinstance(example, arrays.MaskedArray) else ()
    found = check_handlers(type(example), [example], handlers=table, skip=skip, reach_all=True)
    assert found.calls >= 20
    assert found.comparisons > 2 * found.calls


# --- fixtures ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("forbid_materialization")
def test_the_fixture_forbids_materialization() -> None:
    with pytest.raises(tq.MaterializationError):
        tq.use_implicit_args(jnp.sin)(twice(3))


def test_the_fixture_explains_what_the_test_did(explained: Any) -> None:  # noqa: F811  # one of them
    f = tq.use_implicit_args(
        jax.jit(lambda x: -x), handlers=tq.HandlerTable("t", ops.neg.to(negate))
    )
    assert explained().lines == ()
    f(twice(3))
    (line,) = explained().lines
    assert line.primitive == "neg"
    explained().assert_no_materialization()


CONFTEST = 'pytest_plugins = ["typedqax.testing"]\n'
USER_TEST = """
import jax, jax.numpy as jnp, pytest, typedqax as tq

class Same(tq.ImplicitArray):
    x: tq.ArrayValue
    def materialize(self) -> jax.Array:
        return self.x

def test_one(forbid_materialization):
    with pytest.raises(tq.MaterializationError):
        tq.use_implicit_args(jnp.sin)(Same(jnp.ones(3)))

INSTALLED = tq.HandlerTable("t", tq.ops.sin.to(lambda x, /, **params: Same(x.x)))

@pytest.mark.parametrize("time", [1, 2])
def test_installed(installed_kept, time):
    assert tq.which("sin", Same(jnp.ones(3))).winner is None
    tq.install(INSTALLED)
    assert tq.which("sin", Same(jnp.ones(3))).winner is not None

def test_two(explained):
    tq.use_implicit_args(jnp.sin)(Same(jnp.ones(3)))
    assert [line.primitive for line in explained().materialized] == ["sin"]
"""


def test_the_fixtures_come_as_a_plugin(tmp_path: Path) -> None:
    tmp_path.joinpath("conftest.py").write_text(CONFTEST)
    tmp_path.joinpath("test_user.py").write_text(USER_TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(tq.__file__).parent.parent), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout
