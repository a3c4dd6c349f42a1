"""The examples of the two documents that this library descends from run, and print what they say.

"Feedback on API for implicit arrays" and "Qax: A library for simplifying research prototyping" are
davisyoshida's; Patrick Kidger answered the first with multiple dispatch. The examples stand in
`seed_examples/`, as in the documents; each file lists what had to change. In general:

* the import, `import typedqax as qax`, and the imports that the documents leave out;
* JAX's strict promotion refuses an integer array times a float one, as the masked array has it: it
  runs as written under JAX's own promotion, and with floats under the strict one;
* `jax.random` gives other numbers than in 2023, when `jax_threefry_partitionable` was off;
* a sum over 9,344 numbers depends in its last digits on the machine that makes and adds them.

Here stand their results, and which handlers ran.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from numpy.testing import assert_allclose, assert_array_equal

import typedqax as qax
from typedqax import ops
from typedqax._installed import installed_now

EXAMPLES = Path(__file__).parent / "seed_examples"


# --- running an example --------------------------------------------------------------------------


def example(name: str) -> ModuleType:
    """The example, its classes and handlers declared anew."""
    spec = importlib.util.spec_from_file_location(f"seed_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def handlers_that_run() -> Iterator[list[str]]:
    """The names of the installed handlers that are called in the block, in order."""
    codes: set[CodeType] = {rule.handler.function.__code__ for rule in installed_now().rules}
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in codes:
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


# --- symbolic zeros ------------------------------------------------------------------------------


def test_symbolic_zeros_are_multiplied_by_their_handler_and_summed_densely_with_a_warning() -> None:
    doc = example("masks_and_zeros")
    said = r"ImplicitZeros f32\[2,3\] became dense \(24 B\) for reduce_sum"
    with handlers_that_run() as ran, pytest.warns(UserWarning, match=said) as warned:
        doc.main()
    assert ran == ["mul"]
    assert [type(each.message) for each in warned] == [qax.MaterializationWarning]


def test_the_product_with_symbolic_zeros_is_symbolic() -> None:
    doc = example("masks_and_zeros")
    zeros = doc.ImplicitZeros(shape=(2, 3), dtype=jnp.float32)
    with qax.materialization("error"):
        for x, y in ((zeros, jnp.ones((2, 3))), (jnp.ones((2, 3)), zeros), (zeros, zeros)):
            with handlers_that_run() as ran:
                product = jax.jit(qax.use_implicit_args(lambda x, y: x * y))(x, y)
            assert ran == ["mul"]
            assert type(product) is doc.ImplicitZeros
            assert (product.shape, product.dtype) == ((2, 3), jnp.float32)
            assert "mul" not in str(jax.make_jaxpr(qax.use_implicit_args(jnp.multiply))(x, y))


@pytest.mark.parametrize(
    "primitive",
    [
        pytest.param("mul", id="name"),
        pytest.param(jax.lax.mul_p, id="primitive"),
        pytest.param(ops.mul, id="op"),
        pytest.param(["mul", jax.lax.sub_p], id="several"),
    ],
)
def test_a_primitive_is_named_by_a_string_or_by_itself(primitive: Any) -> None:
    class Zeros(qax.ImplicitArray):
        def materialize(self) -> Array:
            return jnp.zeros(self.shape, self.dtype)

    @qax.primitive_handler(primitive)
    def zero_times(primitive: Any, x: Zeros, y: Any) -> Zeros:
        return x

    zeros = Zeros(shape=(3,), dtype=jnp.float32)
    with qax.materialization("error"):
        assert type(zeros * jnp.ones(3)) is Zeros


# --- masked arrays -------------------------------------------------------------------------------


@pytest.mark.lenient_promotion
def test_the_masked_array_prints_what_the_document_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doc = example("masks_and_zeros")
    with handlers_that_run() as ran, qax.materialization("error"):
        doc.masked_array()
    assert capsys.readouterr().out == "Result: [-6. -6. -6.]\nMask: [False False  True]\n"
    assert ran == ["handle_unop", "handle_unop", "handle_binop", "handle_reduction"]


def test_the_masked_array_of_floats_does_so_under_strict_promotion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doc = example("masks_and_zeros")
    with handlers_that_run() as ran, qax.materialization("error"):
        doc.masked_array(three=3.0)
    assert capsys.readouterr().out == "Result: [-6. -6. -6.]\nMask: [False False  True]\n"
    assert ran == ["handle_unop", "handle_binop", "handle_reduction"]


@pytest.mark.parametrize(
    ("function", "numpy_function"),
    [
        pytest.param(lambda x, y: x - y, lambda x, y: x - y, id="sub"),
        pytest.param(lambda x, y: y - x, lambda x, y: y - x, id="sub from"),
        pytest.param(lambda x, y: x / y, lambda x, y: x / y, id="div"),
        pytest.param(lambda x, y: y / x, lambda x, y: y / x, id="div of"),
        pytest.param(lambda x, y: jnp.exp(y) ** x, lambda x, y: np.exp(y) ** x, id="pow"),
    ],
)
def test_the_mask_goes_with_operands_in_their_order(
    function: Callable[..., Array], numpy_function: Callable[..., Any]
) -> None:
    doc = example("masks_and_zeros")
    rng = np.random.default_rng(0)
    val, other = rng.uniform(1, 2, (2, 3)).astype("f4"), rng.uniform(1, 2, (2, 3)).astype("f4")
    mask = jnp.asarray([[True, False, True], [False, True, True]])
    with qax.materialization("error"):
        out: Any = qax.use_implicit_args(function)(doc.NullableArray(jnp.asarray(val), mask), other)
    assert_allclose(out.val, numpy_function(val, other), rtol=1e-6)
    assert_array_equal(out.mask, mask)


def test_the_masked_symbolic_zero_prints_what_the_document_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doc = example("masks_and_zeros")
    said = r"ImplicitZeros f32\[2,3\] became dense \(24 B\) for add\("
    with handlers_that_run() as ran, pytest.warns(qax.MaterializationWarning, match=said) as warned:
        doc.masked_symbolic_zero()
    assert capsys.readouterr().out == (
        "Result:\n[[3. 3. 3.]\n [3. 3. 3.]]\nMask:\n[[ True False  True]\n [False False  True]]\n"
    )
    assert ran == ["handle_binop", "mul", "handle_binop"]
    assert len(warned) == 1


def test_the_product_of_masked_symbolic_zeros_stays_masked_symbolic_zeros() -> None:
    doc = example("masks_and_zeros")
    mask = jnp.asarray([True, False, True])
    x = doc.NullableArray(doc.ImplicitZeros(shape=(3,), dtype=jnp.float32), mask)
    with qax.materialization("error"):
        product: Any = jax.jit(qax.use_implicit_args(lambda x, y: x * y))(x, jnp.ones(3))
    assert type(product) is doc.NullableArray
    assert type(product.val) is doc.ImplicitZeros
    assert_array_equal(product.mask, mask)


def test_branches_that_disagree_are_materialized_until_they_agree() -> None:
    doc = example("masks_and_zeros")
    zeros = doc.ImplicitZeros(shape=(3,), dtype=jnp.float32)

    @jax.jit
    @qax.use_implicit_args
    def f(which: Array, x: Array) -> Any:
        return jax.lax.cond(which, lambda: x * 2.0, lambda: jnp.ones(3))

    with handlers_that_run() as ran, pytest.warns(qax.MaterializationWarning, match="cond"):
        zero = f(jnp.array(True), zeros)
    assert set(ran) == {"mul"}
    assert_array_equal(zero, [0.0, 0.0, 0.0])
    assert_array_equal(f(jnp.array(False), zeros), [1.0, 1.0, 1.0])


def test_branches_of_two_dtypes_stay_an_error() -> None:
    doc = example("masks_and_zeros")
    zeros = doc.ImplicitZeros(shape=(3,), dtype=jnp.float32)

    @qax.use_implicit_args
    def f(x: Array) -> Any:
        return jax.lax.cond(jnp.array(True), lambda: x * 2.0, lambda: jnp.ones(3, jnp.int32))

    with pytest.raises(TypeError, match="the dtypes do not match"):
        f(zeros)


# --- multiple dispatch ---------------------------------------------------------------------------


class Zeros(qax.ImplicitArray, commute_ops=False):
    """All zero; its handlers are each for one order of operands."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


class Infinity(qax.ImplicitArray):
    """Infinity everywhere."""

    def materialize(self) -> Array:
        return jnp.full(self.shape, jnp.inf, self.dtype)


def zeros_left(primitive: Any, x: Zeros, y: Any) -> Zeros:
    return x


def zeros_right(primitive: Any, x: Any, y: Zeros) -> Zeros:
    return y


def zeros_both(primitive: Any, x: Zeros, y: Zeros) -> Zeros:
    return x


ZEROS = Zeros(shape=(3,), dtype=jnp.float32)
INFINITY = Infinity(shape=(3,), dtype=jnp.float32)


@pytest.mark.parametrize(
    "handlers",
    [
        pytest.param(order, id="-".join(each.__name__ for each in order))
        for order in itertools.permutations((zeros_left, zeros_right, zeros_both))
    ],
)
def test_both_orders_by_their_own_handlers_and_a_third_where_they_meet(
    handlers: Sequence[Callable[..., Zeros]],
) -> None:
    with qax.declaring():
        for handler in handlers:
            qax.primitive_handler(jax.lax.mul_p)(handler)
    calls: dict[str, tuple[Any, Any]] = {
        "zeros_left": (ZEROS, 1.0),
        "zeros_right": (1.0, ZEROS),
        "zeros_both": (ZEROS, ZEROS),
    }
    for name, (x, y) in calls.items():
        with qax.materialization("error"), handlers_that_run() as ran:
            product = qax.use_implicit_args(jnp.multiply)(x, y)
        assert ran == [name]
        assert type(product) is Zeros


def test_both_orders_without_a_third_are_refused_and_told_to_be_one() -> None:
    before = installed_now()
    multiplies = qax.primitive_handler(jax.lax.mul_p)
    with pytest.raises(qax.AmbiguityError) as refused, qax.declaring():
        multiplies(zeros_left), multiplies(zeros_right)
    assert installed_now() is before
    assert place(zeros_left) in str(refused.value)
    assert place(zeros_right) in str(refused.value)
    assert "mul(Zeros f32[], Zeros f32[])" in str(refused.value)
    assert "ops.mul.to(zeros_left, commutative=True)" in str(refused.value)


def test_one_handler_is_for_both_orders_unless_its_class_says_otherwise() -> None:
    class Both(qax.ImplicitArray):
        def materialize(self) -> Array:
            return jnp.zeros(self.shape, self.dtype)

    @qax.primitive_handler("mul")
    def both_times(primitive: Any, x: Both, y: Any) -> Both:
        return x

    def times_both(primitive: Any, x: Any, y: Both) -> Both:
        return y

    before = installed_now()
    with pytest.raises(qax.DuplicateHandlerError, match="both_times"):
        qax.primitive_handler("mul")(times_both)
    assert installed_now() is before
    zero = Both(shape=(3,), dtype=jnp.float32)
    with qax.materialization("error"), handlers_that_run() as ran:
        assert type(jnp.ones(3) * zero) is type(zero * jnp.ones(3)) is Both
    assert ran == ["both_times", "both_times"]


def place(function: Callable[..., Any]) -> str:
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


# --- infinity times zero -------------------------------------------------------------------------


def zeros_times(x: Zeros, y: Any) -> Zeros:
    return x


def times_infinity(x: Any, y: Infinity) -> Infinity:
    return y


def zeros_times_infinity(x: Zeros, y: Infinity) -> Array:
    return jnp.full(x.shape, jnp.nan, x.dtype)


def times_infinity_of(primitive: Any, x: Any, y: Infinity) -> Infinity:
    return y


def zeros_times_infinity_of(primitive: Any, x: Zeros, y: Infinity) -> Array:
    return jnp.full(x.shape, jnp.nan, x.dtype)


WITH_PRIMITIVE: dict[Callable[..., Any], Callable[..., Any]] = {
    zeros_times: zeros_left,
    times_infinity: times_infinity_of,
    zeros_times_infinity: zeros_times_infinity_of,
}
"""The handlers as `primitive_handler` wants them, which gives them the primitive first."""

ORDERS = [
    pytest.param((zeros_times, times_infinity), id="zeros first"),
    pytest.param((times_infinity, zeros_times), id="infinity first"),
]


@pytest.mark.parametrize("commutative", [False, True], ids=["one order", "both orders"])
@pytest.mark.parametrize("handlers", ORDERS)
def test_infinity_times_zero_is_refused_in_a_table(
    handlers: Sequence[Callable[..., Any]], commutative: bool
) -> None:
    before = installed_now()
    with pytest.raises(qax.AmbiguityError) as refused:
        qax.HandlerTable("both", *[ops.mul.to(f, commutative=commutative) for f in handlers])
    said = str(refused.value)
    assert installed_now() is before
    assert f"zeros_times(x: Zeros, y: Any)    {place(zeros_times)}" in said
    assert f"times_infinity(x: Any, y: Infinity)    {place(times_infinity)}" in said
    assert re.search(r"mul\(Zeros f32\[\], Infinity f32\[\]\)", said)
    assert "def NAME(x: Zeros, y: Infinity, /, ...): ...      ops.mul.to(NAME)" in said
    first, second = [each.__name__ for each in handlers]
    assert f"or say which wins: ops.mul.to({first}, precedence=1), or {second}" in said


@pytest.mark.parametrize("handlers", ORDERS)
def test_infinity_times_zero_is_refused_when_decorated_and_what_was_there_stays(
    handlers: Sequence[Callable[..., Any]],
) -> None:
    first, second = (WITH_PRIMITIVE[each] for each in handlers)
    qax.primitive_handler("mul")(first)
    before = installed_now()
    said = rf"handler `{second.__name__}` was not installed \(nothing changed\)"
    with pytest.raises(qax.AmbiguityError, match=said):
        qax.primitive_handler("mul")(second)
    assert installed_now() is before


@pytest.mark.parametrize("handlers", ORDERS)
def test_infinity_times_zero_is_refused_between_tables(
    handlers: Sequence[Callable[..., Any]],
) -> None:
    first, second = [qax.HandlerTable(f.__name__, ops.mul.to(f)) for f in handlers]
    with qax.installed(first):
        before = installed_now()
        with pytest.raises(qax.AmbiguityError):
            qax.install(second)
        assert installed_now() is before
    with pytest.raises(qax.AmbiguityError):
        qax.HandlerTable("both", first, second)


@pytest.mark.parametrize(
    "handlers",
    [
        pytest.param(order, id="-".join(each.__name__ for each in order))
        for order in itertools.permutations((zeros_times, times_infinity, zeros_times_infinity))
    ],
)
@pytest.mark.parametrize("how", ["table", "declaring"])
def test_a_third_handler_settles_infinity_times_zero_in_any_order(
    handlers: Sequence[Callable[..., Any]], how: str
) -> None:
    if how == "table":
        qax.install(qax.HandlerTable("all", *[ops.mul.to(f, commutative=True) for f in handlers]))
    else:
        with qax.declaring():
            for handler in handlers:
                qax.primitive_handler("mul")(WITH_PRIMITIVE[handler])
    multiply = qax.use_implicit_args(jnp.multiply)
    with qax.materialization("error"), handlers_that_run() as ran:
        both = multiply(ZEROS, INFINITY)
        zeros, infinity = multiply(ZEROS, jnp.ones(3)), multiply(jnp.ones(3), INFINITY)
    assert_array_equal(both, [np.nan] * 3)
    assert (type(zeros), type(infinity)) == (Zeros, Infinity)
    settled = (zeros_times_infinity, zeros_times, times_infinity)
    assert ran == [(f if how == "table" else WITH_PRIMITIVE[f]).__name__ for f in settled]


@pytest.mark.parametrize("handlers", ORDERS)
@pytest.mark.parametrize(
    ("winner", "result"), [(zeros_times, Zeros), (times_infinity, Infinity)], ids=["zero", "inf"]
)
def test_precedence_settles_infinity_times_zero_in_any_order(
    handlers: Sequence[Callable[..., Any]], winner: Callable[..., Any], result: type
) -> None:
    table = qax.HandlerTable(
        "one wins", *[ops.mul.to(f, precedence=int(f is winner)) for f in handlers]
    )
    multiply = qax.use_implicit_args(jnp.multiply, handlers=table)
    with qax.materialization("error"):
        assert type(multiply(ZEROS, INFINITY)) is result
    with qax.installed(table), qax.materialization("error"), handlers_that_run() as ran:
        assert type(qax.use_implicit_args(jnp.multiply)(ZEROS, INFINITY)) is result
    assert ran == [winner.__name__]


# --- deferring to the superclass -----------------------------------------------------------------


def test_a_handler_defers_in_part_to_that_of_its_superclass() -> None:
    doc = example("masks_and_zeros")
    nullable = doc.NullableArray

    class Counted(nullable):  # type: ignore[misc, valid-type]  # a class of an example
        """A masked array that keeps its mask under reductions, and negates by itself."""

    @qax.primitive_handler([ops.neg, ops.exp])
    def handle_counted(primitive: Any, x: Counted, **params: Any) -> Any:
        if primitive is jax.lax.neg_p:
            return Counted(-x.val, x.mask)
        plain = qax.default_handler(primitive, x, **params)
        assert type(plain) is nullable
        return Counted(plain.val, plain.mask)

    mask = jnp.asarray([True, False])
    x = Counted(jnp.array([0.0, 1.0]), mask)
    with qax.materialization("error"):
        with handlers_that_run() as ran:
            negated: Any = -x
        assert ran == ["handle_counted"]
        with handlers_that_run() as ran:
            exponential: Any = qax.use_implicit_args(jnp.exp)(x)
        assert ran == ["handle_counted", "handle_unop"]
        with handlers_that_run() as ran:
            inherited: Any = qax.use_implicit_args(jnp.cos)(x)
        assert ran == ["handle_unop"]
    results = (negated, exponential, inherited)
    assert [type(each) for each in results] == [Counted, Counted, nullable]
    assert_array_equal(negated.val, [0.0, -1.0])
    assert_allclose(exponential.val, np.exp([0.0, 1.0]), rtol=1e-6)
    assert_array_equal(exponential.mask, mask)


def test_after_the_superclass_comes_materialization() -> None:
    class Base(qax.ImplicitArray):
        x: Array

        def materialize(self) -> Array:
            return self.x

    class Derived(Base):
        """One of a Base."""

    @qax.primitive_handler("exp")
    def handle_derived(primitive: Any, x: Derived, **params: Any) -> Any:
        return qax.default_handler(primitive, x, **params)

    @qax.primitive_handler("exp")
    def handle_base(primitive: Any, x: Base, **params: Any) -> Any:
        return qax.default_handler(primitive, x, **params)

    with (
        handlers_that_run() as ran,
        pytest.warns(qax.MaterializationWarning, match=r"Derived f32\[2\] became dense") as warned,
    ):
        result = qax.use_implicit_args(jnp.exp)(Derived(jnp.zeros(2)))
    assert ran == ["handle_derived", "handle_base"]
    assert_array_equal(result, [1.0, 1.0])
    assert len(warned) == 1


# --- LoRA ----------------------------------------------------------------------------------------


def lora_matrix(cls: Any, seed: int = 0) -> Any:
    w, a, b = (
        jax.random.normal(key, shape)
        for key, shape in zip(
            jax.random.split(jax.random.key(seed), 3), ((4, 5), (4, 2), (5, 2)), strict=True
        )
    )
    return cls(W=w, A=a, B=b)


@pytest.mark.parametrize("name", ["mini_lora", "lora_and_eye"])
def test_lora_multiplies_without_its_dense_matrix(name: str) -> None:
    doc = example(name)
    lora = lora_matrix(doc.LoraMatrix)
    x = jax.random.normal(jax.random.key(1), (7, 4))
    matmul = qax.use_implicit_args(jnp.matmul)
    with qax.materialization("error"):
        with handlers_that_run() as ran:
            product = matmul(x, lora)
        assert ran == ["lora_matmul"]
        jitted = jax.jit(matmul)(x, lora)
    expected = x @ (lora.W + lora.A @ lora.B.T)
    assert_allclose(product, expected, rtol=1e-4, atol=1e-5)
    assert_allclose(jitted, expected, rtol=1e-4, atol=1e-5)
    assert "[4,5] = add" not in str(jax.make_jaxpr(matmul)(x, lora))


def test_the_shape_and_dtype_of_lora_are_those_of_its_materialize() -> None:
    doc = example("lora_and_eye")
    lora = lora_matrix(doc.LoraMatrix)
    assert (lora.shape, lora.dtype) == ((4, 5), jnp.float32)
    assert lora.aval == jax.typeof(lora) == jax.typeof(jnp.ones((4, 5)))


def test_the_metadata_of_lora_is_no_leaf_and_stays() -> None:
    doc = example("lora_and_eye")
    lora = lora_matrix(doc.LoraMatrix)
    assert len(jax.tree.leaves(lora)) == 3
    assert jax.tree.map(lambda leaf: leaf, lora).some_metadata == "hello"
    doubled = jax.jit(lambda tree: jax.tree.map(lambda leaf: 2 * leaf, tree))(lora)
    assert doubled.some_metadata == "hello"


@pytest.mark.parametrize(
    ("function", "other", "tried"),
    [
        pytest.param(lambda w, y: w @ y, (5, 3), False, id="on the left"),
        pytest.param(
            lambda w, y: jax.lax.dot_general(y, w, (((1,), (1,)), ((), ()))),
            (3, 5),
            True,
            id="along its second axis",
        ),
        pytest.param(
            lambda w, y: jax.lax.dot_general(y, w, (((0,), (0,)), ((), ()))),
            (4, 3),
            True,
            id="along the first axis of the other",
        ),
        pytest.param(
            lambda w, y: jax.lax.dot_general(y, w, (((1,), (1,)), ((0,), (0,)))),
            (4, 5),
            True,
            id="as a batch",
        ),
    ],
)
def test_other_products_with_lora_are_dense_and_said_to_be(
    function: Callable[[Any, Array], Array], other: tuple[int, ...], tried: bool
) -> None:
    doc = example("lora_and_eye")
    lora = lora_matrix(doc.LoraMatrix)
    y = jax.random.normal(jax.random.key(1), other)
    with (
        handlers_that_run() as ran,
        pytest.warns(qax.MaterializationWarning, match=r"LoraMatrix f32\[4,5\] became") as said,
    ):
        product = qax.use_implicit_args(function)(lora, y)
    assert ran == ["lora_matmul"] * tried
    assert len(said) == 1
    reason = r"declined" if tried else r"operand 2: Array, expected LoraMatrix"
    assert re.search(rf"lora_matmul \(.*\):? {reason}", str(said[0].message))
    assert_allclose(product, function(qax.materialize(lora), y), rtol=1e-4, atol=1e-5)


def test_lora_is_differentiated_in_its_parts_and_mapped_over_rows() -> None:
    doc = example("lora_and_eye")
    lora = lora_matrix(doc.LoraMatrix)
    x = jax.random.normal(jax.random.key(1), (7, 4))

    def loss(w: Any, x: Array) -> Array:
        return jnp.sum((x @ w) ** 2)

    def by_hand(w: Array, a: Array, b: Array) -> Array:
        return loss(w + a @ b.T, x)

    with qax.materialization("error"):
        gradient = jax.jit(jax.grad(qax.use_implicit_args(loss)))(lora, x)
        rows = jax.vmap(qax.use_implicit_args(jnp.matmul), in_axes=(0, None))(x, lora)
    assert type(gradient) is doc.LoraMatrix
    expected = jax.grad(by_hand, argnums=(0, 1, 2))(lora.W, lora.A, lora.B)
    for got, want in zip((gradient.W, gradient.A, gradient.B), expected, strict=True):
        assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert_allclose(rows, x @ qax.materialize(lora), rtol=1e-4, atol=1e-5)


def test_the_gradient_inside_the_transform_is_that_of_the_array_lora_stands_for() -> None:
    doc = example("lora_and_eye")
    lora = lora_matrix(doc.LoraMatrix)
    x = jax.random.normal(jax.random.key(1), (7, 4))
    gradient = jax.grad(lambda w: jnp.sum((x @ w) ** 2))
    with handlers_that_run() as ran:
        inside = qax.use_implicit_args(gradient)(lora)
    assert "lora_matmul" in ran
    assert type(inside) is not doc.LoraMatrix
    assert_allclose(inside, gradient(qax.materialize(lora)), rtol=1e-4, atol=1e-4)


# --- LoRA in a HuggingFace model -----------------------------------------------------------------

KERNELS_IN_A_LAYER = 6


@pytest.fixture(scope="module")
def gpt_neo() -> tuple[Any, Any]:
    """An unmodified FlaxGPTNeoForCausalLM of a small random configuration, and its params."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers, flax and torch about one another
        from transformers import FlaxGPTNeoForCausalLM, GPTNeoConfig
    config = GPTNeoConfig(
        vocab_size=64,
        hidden_size=32,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        num_heads=2,
        window_size=4,
        max_position_embeddings=16,
    )
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        model = FlaxGPTNeoForCausalLM(config, _do_init=False)
        params = jax.jit(lambda key: model.init_weights(key, (1, 1)))(jax.random.PRNGKey(7))
    return model, params


INPUTS = np.asarray([[17, 4, 33, 8, 60, 12, 5]])


@pytest.mark.lenient_promotion
def test_an_unmodified_huggingface_model_predicts_with_lora_what_it_did_before(
    gpt_neo: tuple[Any, Any],
) -> None:
    doc = example("lora_and_eye")
    model, params = gpt_neo
    lora_params = doc.with_lora(params)
    leaves = jax.tree.leaves(lora_params, is_leaf=qax.is_implicit)
    replaced = [leaf for leaf in leaves if qax.is_implicit(leaf)]
    assert [type(leaf) for leaf in replaced] == [doc.LoraMatrix] * 2 * KERNELS_IN_A_LAYER

    with qax.materialization("error"), handlers_that_run() as ran:
        token = jax.jit(lambda params: doc.next_token(model, params, INPUTS))(lora_params)
    assert ran == ["lora_matmul"] * len(replaced)
    plain = jax.jit(lambda params: model(INPUTS, params=params).logits)(params)
    assert token == plain[0, -1].argmax()


@pytest.mark.lenient_promotion
def test_a_huggingface_model_with_lora_is_the_model_with_its_sum(gpt_neo: tuple[Any, Any]) -> None:
    doc = example("lora_and_eye")
    model, params = gpt_neo
    keys = iter(jax.random.split(jax.random.key(3), 100))

    def with_b(leaf: Any) -> Any:
        if not isinstance(leaf, doc.LoraMatrix):
            return leaf
        return doc.LoraMatrix(leaf.W, leaf.A, 0.02 * jax.random.normal(next(keys), leaf.B.shape))

    lora_params = jax.tree.map(with_b, doc.with_lora(params), is_leaf=qax.is_implicit)

    def loss(params: Any) -> Array:
        logits: Array = model(INPUTS, params=params).logits
        return -jnp.mean(jax.nn.log_softmax(logits[0, :-1])[jnp.arange(6), INPUTS[0, 1:]])

    with qax.materialization("error"), handlers_that_run() as ran:
        value, gradient = jax.jit(jax.value_and_grad(qax.use_implicit_args(loss)))(lora_params)
    assert set(ran) == {"lora_matmul"}
    dense_value, dense_gradient = jax.jit(jax.value_and_grad(loss))(qax.materialize(lora_params))
    assert_allclose(value, dense_value, rtol=1e-5)

    leaves = zip(
        jax.tree.leaves(gradient, is_leaf=qax.is_implicit),
        jax.tree.leaves(lora_params, is_leaf=qax.is_implicit),
        jax.tree.leaves(dense_gradient),
        strict=True,
    )
    for got, lora, dense in leaves:
        if isinstance(lora, doc.LoraMatrix):
            assert type(got) is doc.LoraMatrix
            assert_allclose(got.W, dense, rtol=1e-3, atol=1e-5)
            assert_allclose(got.A, dense @ lora.B, rtol=1e-3, atol=1e-5)
            assert_allclose(got.B, dense.T @ lora.A, rtol=1e-3, atol=1e-5)
        else:
            assert_allclose(got, dense, rtol=1e-3, atol=1e-5)


# --- identity ------------------------------------------------------------------------------------


def test_the_identity_prints_what_the_document_prints(capsys: pytest.CaptureFixture[str]) -> None:
    doc = example("lora_and_eye")
    with handlers_that_run() as ran, qax.materialization("error"):
        doc.matmul_with_identity()
    assert capsys.readouterr().out == (
        "[[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12.]\n"
        " [13. 14. 15. 16. 17. 18. 19. 20. 21. 22. 23. 24. 25.]\n"
        " [26. 27. 28. 29. 30. 31. 32. 33. 34. 35. 36. 37. 38.]]\n"
    )
    assert ran == ["dot_handler"]


@pytest.mark.parametrize("shape", [(13, 3), (3,)], ids=["matrix", "vector"])
def test_a_product_with_the_identity_takes_no_flops(shape: tuple[int, ...]) -> None:
    doc = example("lora_and_eye")
    x = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    with handlers_that_run() as ran, qax.materialization("error"):
        jaxpr = jax.make_jaxpr(doc.f)(x, doc.Eye(3))
    assert ran == ["dot_handler"]
    assert "dot_general" not in str(jaxpr)
    assert_array_equal(doc.f(x, doc.Eye(3)), x)


def test_an_identity_times_an_identity_is_one() -> None:
    doc = example("lora_and_eye")
    with handlers_that_run() as ran, qax.materialization("error"):
        product = jax.jit(doc.f)(doc.Eye(3), doc.Eye(3))
    assert ran == ["dot_handler"]
    assert type(product) is doc.Eye
    assert (product.shape, product.dtype) == ((3, 3), jnp.float32)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda e, x: jnp.ones((2, 5, 3)) @ e, id="of three axes"),
        pytest.param(
            lambda e, x: jax.lax.dot_general(e, x, (((1,), (1,)), ((), ()))), id="transposed"
        ),
        pytest.param(
            lambda e, x: jax.lax.dot_general(e, x, (((1,), (0,)), ((0,), (1,)))), id="as a batch"
        ),
    ],
)
def test_the_identity_is_dense_where_its_handler_declines(
    function: Callable[[Any, Array], Array],
) -> None:
    doc = example("lora_and_eye")
    x = jnp.arange(9.0).reshape(3, 3)
    with handlers_that_run() as ran, pytest.warns(qax.MaterializationWarning, match="declined"):
        product = qax.use_implicit_args(function)(doc.Eye(3), x)
    assert ran == ["dot_handler"]
    assert_array_equal(product, function(jnp.eye(3), x))


# --- nesting -------------------------------------------------------------------------------------


def test_the_identity_plus_low_rank_prints_what_the_document_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doc = example("lora_and_eye")
    with jax.threefry_partitionable(False):
        with handlers_that_run() as ran, qax.materialization("error"):
            doc.identity_plus_low_rank()
        numbers = jax.random.normal(jax.random.PRNGKey(1), (73, 128))
    assert ran == ["lora_matmul", "dot_handler"]
    printed = capsys.readouterr().out
    assert printed == str(jnp.sum(numbers)) + "\n"  # x (I + A 0) is x, to the last bit
    # The document's machine, a GPU, added these 9,344 numbers in an order of its own, and so does
    # every JAX; the document's sum is five float32 from the one that is not rounded.
    exact = np.sum(np.asarray(numbers, np.float64))
    assert abs(exact - 40.892204) <= 5 * np.spacing(np.float32(40.892204))


def test_the_identity_plus_low_rank_takes_the_flops_of_the_low_rank_alone() -> None:
    doc = example("lora_and_eye")
    a, b = jnp.ones((128, 16)), jnp.full((128, 16), 0.5)
    x = jax.random.normal(jax.random.key(1), (73, 128))
    lora = doc.LoraMatrix(W=doc.Eye(128), A=a, B=b)

    def flops(f: Callable[..., Any], *args: Any) -> float:
        costs: Any = jax.jit(f).lower(*args).compile().cost_analysis()
        return float(costs["flops"])

    with qax.materialization("error"):
        assert flops(doc.f, x, lora) == flops(lambda x, a, b: x + (x @ a) @ b.T, x, a, b)
        assert_allclose(doc.f(x, lora), x + (x @ a) @ b.T, rtol=1e-5, atol=1e-4)
