"""Laws of the ready-made arrays: an implicit array gives what the array it stands for gives."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import typedqax as tq
from typedqax._installed import installed_table
from typedqax._rule import Rule
from typedqax.arrays import (
    EYE,
    INT8,
    LORA,
    MASKED,
    ZEROS,
    Eye,
    Int8Matrix,
    LoraMatrix,
    MaskedArray,
    Zeros,
)

pytestmark = pytest.mark.without_leak_checks  # but for test_no_handler_leaks_a_tracer

ALL = tq.HandlerTable("all", LORA, INT8, EYE, ZEROS, MASKED)
KEY = jax.random.key(0)


def numbers(seed: int, *shape: int) -> Array:
    """Numbers that no two places share, of either sign, none of them near zero."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Kind:
    """A class of implicit arrays, and what its arrays stand for in plain JAX."""

    table: tq.HandlerTable
    make: Callable[[int], Any]
    reference: Callable[[Any], Array]


def make_int8(seed: int) -> Int8Matrix:
    values = np.random.default_rng(seed).integers(-127, 128, (4, 5))
    return Int8Matrix(values=jnp.asarray(values, jnp.int8), scale=abs(numbers(seed, 1, 5)) / 64)


KINDS = {
    "lora": Kind(
        LORA,
        lambda seed: LoraMatrix(
            numbers(seed, 4, 5), numbers(seed + 1, 4, 2), numbers(seed + 2, 5, 2), alpha=0.5
        ),
        lambda w: w.w + 0.5 * jnp.einsum("mr,nr->mn", w.a, w.b),
    ),
    "int8": Kind(
        INT8,
        make_int8,
        lambda w: jnp.einsum("mn,n->mn", w.values.astype(jnp.float32), w.scale[0]),
    ),
    "zeros": Kind(
        ZEROS,
        lambda _: Zeros(shape=(4, 5), dtype=jnp.float32),
        lambda _: jnp.full((4, 5), 0, jnp.float32),
    ),
    "eye": Kind(
        EYE,
        lambda _: Eye(4),
        lambda _: jnp.asarray(np.identity(4), jnp.float32),
    ),
}

ROW, COLUMN, WIDE = numbers(10, 4), numbers(11, 5), numbers(12, 4, 5)
LEFT, RIGHT, BATCH = numbers(13, 3, 4), numbers(14, 5, 3), numbers(15, 2, 3, 4)
INDICES = jnp.array([[3, 0], [1, 1]])


def dot(x: Any, y: Any, axis: int, other: int) -> Array:
    """A contraction as lax writes it."""
    return lax.dot_general(x, y, (((axis,), (other,)), ((), ())))


def block(w: Array) -> Array:
    """A block at a place that is not known when the program is compiled."""
    return lax.dynamic_slice(w, (jnp.array(1), jnp.array(2)), (2, 3))


def half(w: Array) -> Array:
    """The array in half precision."""
    return w.astype(jnp.float16)


def wide_dot(w: Array) -> Array:
    """A product whose result is wider than its operands."""
    low = LEFT.astype(jnp.float16), w.astype(jnp.float16)
    return jnp.matmul(*low, preferred_element_type=jnp.float32)


ROUGH = {half, wide_dot}
"""What is computed in half precision, and can be compared only so far."""


# What each function does, and the handlers that must run for it, in order.
MATRIX: dict[str, tuple[Callable[[Array], Any], dict[str, str]]] = {
    "x @ w": (lambda w: LEFT @ w, {"lora": "times_lora", "int8": "times_int8"}),
    "x @ w.T": (
        lambda w: RIGHT.T @ w.T,
        {"lora": "transpose times_lora", "int8": "transpose times_int8"},
    ),
    "w @ x": (lambda w: w @ RIGHT, {"lora": "lora_times", "int8": "int8_times"}),
    "w.T @ x": (
        lambda w: w.T @ LEFT.T,
        {"lora": "transpose lora_times", "int8": "transpose int8_times"},
    ),
    "batched x @ w": (lambda w: BATCH @ w, {"lora": "times_lora", "int8": "times_int8"}),
    "vector @ w": (lambda w: ROW @ w, {"lora": "times_lora", "int8": "times_int8"}),
    "w @ vector": (lambda w: w @ COLUMN, {"lora": "lora_times", "int8": "int8_times"}),
    "first axes": (lambda w: dot(LEFT.T, w, 0, 0), {"lora": "times_lora", "int8": "times_int8"}),
    "last axes": (lambda w: dot(RIGHT, w, 0, 1), {"lora": "times_lora", "int8": "times_int8"}),
    "middle axis": (
        lambda w: dot(BATCH.swapaxes(1, 2), w, 1, 0),
        {"lora": "times_lora", "int8": "times_int8"},
    ),
    "w first, both first": (
        lambda w: dot(w, LEFT.T, 0, 0),
        {"lora": "lora_times", "int8": "int8_times"},
    ),
    "w first, batched x": (
        lambda w: dot(w, BATCH, 0, 2),
        {"lora": "lora_times", "int8": "int8_times"},
    ),
    "einsum": (
        lambda w: jnp.einsum("bti,ij->btj", BATCH, w),
        {"lora": "times_lora", "int8": "times_int8"},
    ),
    "w.T": (lambda w: w.T, {"lora": "transpose", "int8": "transpose"}),
    "astype": (half, {"lora": "convert", "int8": "convert"}),
    "2 * w": (lambda w: 2 * w, {"lora": "multiply", "int8": "multiply"}),
    "w / 2": (lambda w: w / 2, {"lora": "divide", "int8": "divide"}),
    "-w": (lambda w: -w, {"lora": "negate", "int8": "negate"}),
    "w + x": (lambda w: w + WIDE, {"lora": "shift"}),
    "x + w": (lambda w: WIDE + w, {"lora": "shift"}),
    "w - x": (lambda w: w - WIDE, {"lora": "less"}),
    "x - w": (lambda w: WIDE - w, {"lora": "less_lora"}),
    "rows": (lambda w: w[INDICES], {"lora": "rows", "int8": "rows"}),
    "take": (lambda w: jnp.take(w, INDICES, axis=0), {"lora": "rows", "int8": "rows"}),
    "a row of each": (
        lambda w: jax.vmap(lambda i: w[i])(INDICES.ravel()),
        {"lora": "row_of_each rows", "int8": "row_of_each rows"},
    ),
    "take out of bounds": (
        lambda w: jnp.take(w, jnp.array([1, 7]), axis=0, fill_value=5.0),
        {"lora": "rows", "int8": "rows"},
    ),
    "slice": (lambda w: w[1:3, ::2], {"lora": "part", "int8": "part"}),
    "one row": (lambda w: w[1], {"lora": "part single"}),
    "block": (block, {"lora": "dynamic_part"}),
    "sum": (jnp.sum, {"lora": "total"}),
    "sum of columns": (lambda w: w.sum(0), {"lora": "total"}),
    "sum of rows": (lambda w: w.sum(1), {"lora": "total"}),
    "stop_gradient": (lax.stop_gradient, {"lora": "", "int8": ""}),
    "wide result": (wide_dot, {"lora": "convert times_lora", "int8": "convert times_int8"}),
}

ZERO: dict[str, tuple[Callable[[Array], Any], str]] = {
    "z + x": (lambda z: z + WIDE, "plus"),
    "x + z": (lambda z: WIDE + z, "plus"),
    "z + 1": (lambda z: z + 1.0, "plus"),
    "row + z": (lambda z: COLUMN[None] + z, "plus"),
    "z + z": (lambda z: z + z, "plus_zeros"),
    "z - x": (lambda z: z - WIDE, "minus"),
    "x - z": (lambda z: WIDE - z, "less_zeros"),
    "1 - z": (lambda z: 1.0 - z, "less_zeros"),
    "z - z": (lambda z: z - z, "less_zeros"),
    "z * x": (lambda z: z * WIDE, "times"),
    "2 * z": (lambda z: 2 * z, "times"),
    "z * z": (lambda z: z * z, "times"),
    "z / x": (lambda z: z / WIDE, "divided"),
    "maximum": (lambda z: jnp.maximum(z, WIDE), "as_scalar"),
    "x > z": (lambda z: z < WIDE, "as_scalar"),
    "sin": (jnp.sin, "elementwise"),
    "cos": (jnp.cos, "elementwise"),
    "-z": (lambda z: -z, "elementwise"),
    "z ** 2": (lambda z: z**2, "elementwise"),
    "astype": (lambda z: z.astype(jnp.int32), "convert"),
    "reshape": (lambda z: z.reshape(2, 10), "structural"),
    "transpose": (lambda z: z.T, "structural"),
    "new axis": (lambda z: z[:, None], "structural"),
    "slice": (lambda z: z[1:3, ::2], "structural"),
    "flip": (lambda z: jnp.flip(z, 0), "structural"),
    "sum": (jnp.sum, "reduce"),
    "max": (lambda z: z.max(1), "reduce"),
    "prod": (lambda z: z.prod(0), "reduce"),
    "cumsum": (lambda z: jnp.cumsum(z, 0), "accumulate"),
    "x @ z": (lambda z: LEFT @ z, "product"),
    "z @ x": (lambda z: z @ RIGHT, "product"),
    "z @ z.T": (lambda z: z @ z.T, "structural product"),
    "rows": (lambda z: z[INDICES], "lookup structural"),
    "block": (block, "block"),
    "concatenate": (lambda z: jnp.concatenate([z, z]), "join"),
    "where": (lambda z: lax.select_n(WIDE > 0, z, z), "choose"),
    "stop_gradient": (lax.stop_gradient, "elementwise"),
}

IDENTITY: dict[str, tuple[Callable[[Array], Any], str]] = {
    "x @ e": (lambda e: LEFT @ e, "times_eye"),
    "e @ x": (lambda e: e @ WIDE, "eye_times"),
    "batched x @ e": (lambda e: BATCH @ e, "times_eye"),
    "first axes": (lambda e: dot(WIDE, e, 0, 0), "times_eye"),
    "middle axis": (lambda e: dot(BATCH.swapaxes(1, 2), e, 1, 1), "times_eye"),
    "e first, last axis": (lambda e: dot(e, BATCH, 0, 2), "eye_times"),
    "e @ vector": (lambda e: e @ ROW, "eye_times"),
    "e @ e": (lambda e: e @ e, "eye_times_eye"),
    "e.T": (lambda e: e.T, "transpose"),
    "astype": (lambda e: e.astype(jnp.int32), "convert"),
    "e * x": (lambda e: e * numbers(20, 4, 4), "diagonal_part"),
    "e * e": (lambda e: e * e, "same"),
}

CASES = [
    *(
        pytest.param(KINDS[kind], f, handlers, id=f"{kind}: {name}")
        for name, (f, by_kind) in MATRIX.items()
        for kind, handlers in by_kind.items()
    ),
    *(pytest.param(KINDS["zeros"], f, h, id=f"zeros: {name}") for name, (f, h) in ZERO.items()),
    *(pytest.param(KINDS["eye"], f, h, id=f"eye: {name}") for name, (f, h) in IDENTITY.items()),
]
every_case = pytest.mark.parametrize(("kind", "f", "handlers"), CASES)


@contextmanager
def recorded(table: tq.HandlerTable) -> Iterator[tuple[tq.HandlerTable, list[str]]]:
    """The table with handlers that write down their names as they run."""
    ran: list[str] = []

    def recording(rule: Rule) -> Rule:
        original = rule.handler.function

        @functools.wraps(original)
        def function(*args: Any, **params: Any) -> Any:
            ran.append(original.__name__)
            return original(*args, **params)

        handler = dataclasses.replace(rule.handler, function=function)
        return Rule(handler, rule.targets, rule.precedence, commutative=rule.commutative)

    yield tq.HandlerTable(table.name, *map(recording, table.rules)), ran


def dense(result: Any) -> Any:
    """The result with every implicit array in it made dense on purpose."""
    return jax.tree.map(np.asarray, tq.materialize(result))


def assert_close(got: Any, want: Any, f: Any = None) -> None:
    """Equal in structure, shape, dtype and, up to the rounding of `f`, in values."""
    got, want = dense(got), jax.tree.map(np.asarray, want)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        tolerance = 3e-2 if f in ROUGH else 2e-5
        np.testing.assert_allclose(
            g.astype(np.float64), w.astype(np.float64), rtol=tolerance, atol=tolerance
        )


@pytest.fixture(autouse=True)
def _nothing_becomes_dense() -> Iterator[None]:
    with tq.materialization("error"):
        yield


@every_case
def test_an_implicit_array_gives_what_the_array_it_stands_for_gives(
    kind: Kind, f: Any, handlers: str
) -> None:
    w = kind.make(0)
    assert_close(tq.use_implicit_args(f, handlers=kind.table)(w), f(kind.reference(w)), f)


@every_case
def test_the_handlers_that_run_are_these(kind: Kind, f: Any, handlers: str) -> None:
    with recorded(kind.table) as (table, ran):
        tq.use_implicit_args(f, handlers=table)(kind.make(0))
    assert " ".join(ran) == handlers


def functions_of(kind: Kind) -> dict[str, Callable[[Any], Any]]:
    """All functions that are tried on this kind."""
    values: list[tuple[str, Any]] = [(str(case.id), case.values) for case in CASES]
    return {name: f for name, (its_kind, f, _) in values if its_kind is kind}


def every_function(kind: Kind) -> Callable[[Any], dict[str, Any]]:
    """All functions that are tried on this kind, as one: compiled once, not once each."""
    functions = functions_of(kind)
    return lambda w: {name: f(w) for name, f in functions.items()}


def assert_all_close(got: dict[str, Any], want: dict[str, Any], kind: Kind) -> None:
    """Each result equal to the other of its name; a failure tells the name."""
    assert got.keys() == want.keys()
    for name, f in functions_of(kind).items():
        try:
            assert_close(got[name], want[name], f)
        except AssertionError as error:
            error.add_note(name)
            raise


every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@every_kind
def test_it_holds_under_jit(kind: Kind) -> None:
    w, f = kind.make(0), every_function(kind)
    got = jax.jit(tq.use_implicit_args(f, handlers=kind.table))(w)
    assert_all_close(got, f(kind.reference(w)), kind)


def loss(result: Any) -> Array:
    """A number that depends on every entry of the result differently."""
    total = jnp.zeros(())
    for leaf in jax.tree.leaves(tq.materialize(result)):
        flat = leaf.astype(jnp.float32).ravel()
        total += jnp.sum(jnp.sin(flat) * jnp.arange(1.0, flat.size + 1))
    return total


def gradients(functions: dict[str, Callable[[Any], Any]], w: Any) -> dict[str, list[Array]]:
    """The gradient of each result's loss, in the leaves that have one."""

    def gradient(f: Callable[[Any], Any]) -> list[Array]:
        leaves = jax.tree.leaves(jax.grad(lambda w: loss(f(w)), allow_int=True)(w))
        return [leaf for leaf in leaves if leaf.dtype != jax.dtypes.float0]

    return {name: gradient(f) for name, f in functions.items()}


@every_kind
def test_gradients_in_the_fields_are_those_of_plain_jax(kind: Kind) -> None:
    w, functions = kind.make(0), functions_of(kind)
    implicit = {name: tq.use_implicit_args(f, handlers=kind.table) for name, f in functions.items()}

    def plain(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda w: f(kind.reference(w))

    dense = {name: plain(f) for name, f in functions.items()}
    got, want = (jax.jit(functools.partial(gradients, each))(w) for each in (implicit, dense))
    assert_all_close(got, want, kind)


def stacked(kind: Kind) -> tuple[list[Any], Any]:
    """Three arrays, and the leaves of all three stacked in one."""
    each = [kind.make(seed) for seed in (0, 100, 200)]
    return each, jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def expected(kind: Kind, each: list[Any]) -> Any:
    """The results of plain JAX, stacked."""
    f = jax.jit(every_function(kind))
    return jax.tree.map(lambda *xs: jnp.stack(xs), *(f(kind.reference(w)) for w in each))


@every_kind
def test_vmap_maps_over_the_fields(kind: Kind) -> None:
    each, stack = stacked(kind)
    f = tq.use_implicit_args(every_function(kind), handlers=kind.table)
    got = jax.jit(jax.vmap(lambda w: tq.materialize(f(w))))(stack)
    assert_all_close(got, expected(kind, each), kind)


@every_kind
def test_scan_slices_the_fields(kind: Kind) -> None:
    each, stack = stacked(kind)
    f = every_function(kind)

    def body(carry: Array, w: Any) -> tuple[Array, Any]:
        return carry + 1, f(w)

    run = tq.use_implicit_args(lambda ws: lax.scan(body, jnp.zeros(()), ws), handlers=kind.table)
    count, results = jax.jit(run)(stack)
    assert count == 3
    assert_all_close(results, expected(kind, each), kind)


@every_kind
def test_no_handler_leaks_a_tracer(kind: Kind) -> None:
    functions, (_, stack) = functions_of(kind), stacked(kind)
    implicit = {name: tq.use_implicit_args(f, handlers=kind.table) for name, f in functions.items()}
    f = tq.use_implicit_args(every_function(kind), handlers=kind.table)
    scanned = tq.use_implicit_args(
        lambda ws: lax.map(every_function(kind), ws), handlers=kind.table
    )
    with jax.checking_leaks():
        jax.make_jaxpr(functools.partial(gradients, implicit))(kind.make(0))
        jax.make_jaxpr(jax.vmap(lambda w: tq.materialize(f(w))))(stack)
        jax.make_jaxpr(scanned)(stack)


MAPPED = [
    *("x @ w", "x @ w.T", "w @ x", "w.T @ x", "batched x @ w", "vector @ w", "w @ vector"),
    *("first axes", "last axes", "middle axis", "w first, both first", "w first, batched x"),
    *("einsum", "w.T", "2 * w", "w / 2", "-w"),
]


@pytest.mark.parametrize("kind", [KINDS["lora"], KINDS["int8"]], ids=["lora", "int8"])
@pytest.mark.parametrize("levels", [1, 2], ids=["a stack", "a stack of stacks"])
def test_vmap_within_the_transform_keeps_a_stack_implicit(kind: Kind, levels: int) -> None:
    each, stack = stacked(kind)
    functions = {name: MATRIX[name][0] for name in MAPPED}

    def f(w: Any) -> dict[str, Any]:
        return {name: f(w) for name, f in functions.items()}

    def mapped(stack: Any) -> Any:
        return functools.reduce(lambda f, _: jax.vmap(f), range(levels), f)(stack)

    want = jax.tree.map(lambda *xs: jnp.stack(xs), *(f(kind.reference(w)) for w in each))
    for _ in range(levels - 1):
        stack, want = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), (stack, want))
    got = jax.jit(tq.use_implicit_args(mapped, handlers=kind.table))(stack)
    for name, result in want.items():
        assert_close(got[name], result)


@pytest.mark.parametrize(
    ("equation", "x"),
    [
        pytest.param("kbm,kmn->kbn", numbers(30, 3, 2, 4), id="x @ w"),
        pytest.param("kbn,kmn->kbm", numbers(31, 3, 2, 5), id="x @ w.T"),
        pytest.param("bm,kmn->kbn", numbers(32, 2, 4), id="one x"),
        pytest.param("kmn,bkn->kmb", numbers(33, 2, 3, 5), id="w @ x, batch in the middle"),
    ],
)
@pytest.mark.parametrize("shared", [False, True], ids=["all stacked", "one base"])
def test_a_batched_product_goes_through_each_adapter(equation: str, x: Array, shared: bool) -> None:
    w, a, b = numbers(34, 3, 4, 5), numbers(35, 3, 4, 2), numbers(36, 3, 5, 2)
    lora = LoraMatrix(w[0] if shared else w, a, b, alpha=0.5)
    plain = (w[:1] if shared else w) + 0.5 * jnp.einsum("kmr,knr->kmn", a, b)
    lora_first = equation.startswith("kmn")

    def f(w: Any) -> Array:
        return jnp.einsum(equation, *((w, x) if lora_first else (x, w)))

    assert_close(tq.use_implicit_args(f, handlers=LORA)(lora), f(plain))


def test_a_product_over_the_stack_itself_is_declined() -> None:
    _, stack = stacked(KINDS["lora"])
    run = tq.use_implicit_args(functools.partial(dot, jnp.ones(3), axis=0, other=0), handlers=LORA)
    with pytest.raises(tq.MaterializationError, match="LoraMatrix"):
        run(stack)


def test_adapters_may_be_wider_than_their_base() -> None:
    w = numbers(40, 4, 5).astype(jnp.bfloat16)
    a, b = numbers(41, 4, 2), numbers(42, 5, 2)
    lora = LoraMatrix(w, a, b)
    assert lora.dtype == jnp.bfloat16
    got = tq.use_implicit_args(lambda w: LEFT.astype(jnp.bfloat16) @ w, handlers=LORA)(lora)
    assert got.dtype == jnp.bfloat16
    want = np.asarray(LEFT) @ (np.asarray(w, np.float32) + np.asarray(a) @ np.asarray(b).T)
    np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=0.05, atol=0.05)


@every_kind
def test_a_transform_within_a_transform_changes_nothing(kind: Kind) -> None:
    w, f = kind.make(0), every_function(kind)
    inner = tq.use_implicit_args(f, handlers=kind.table)
    got = jax.jit(tq.use_implicit_args(inner, handlers=ALL))(w)
    assert_all_close(got, jax.jit(f)(kind.reference(w)), kind)


NESTED = [
    pytest.param(
        lambda: LoraMatrix(Eye(4), numbers(1, 4, 2), numbers(2, 4, 2), alpha=2.0),
        lambda: np.identity(4) + 2 * np.asarray(numbers(1, 4, 2)) @ np.asarray(numbers(2, 4, 2)).T,
        id="LoRA of an identity",
    ),
    pytest.param(
        lambda: LoraMatrix(
            Zeros(shape=(4, 5), dtype=jnp.float32), numbers(1, 4, 2), numbers(2, 5, 2)
        ),
        lambda: np.asarray(numbers(1, 4, 2)) @ np.asarray(numbers(2, 5, 2)).T,
        id="LoRA of zeros",
    ),
    pytest.param(
        lambda: LoraMatrix(make_int8(0), numbers(1, 4, 2), numbers(2, 5, 2)),
        lambda: (
            np.asarray(make_int8(0).values) * np.asarray(make_int8(0).scale)
            + np.asarray(numbers(1, 4, 2)) @ np.asarray(numbers(2, 5, 2)).T
        ),
        id="LoRA of int8",
    ),
    pytest.param(
        lambda: LoraMatrix(KINDS["lora"].make(0), numbers(1, 4, 1), numbers(2, 5, 1)),
        lambda: (
            np.asarray(KINDS["lora"].reference(KINDS["lora"].make(0)))
            + np.asarray(numbers(1, 4, 1)) @ np.asarray(numbers(2, 5, 1)).T
        ),
        id="LoRA of LoRA",
    ),
    pytest.param(
        lambda: LoraMatrix(
            numbers(0, 4, 5),
            numbers(1, 4, 2),
            Zeros(shape=(5, 2), dtype=jnp.float32),
        ),
        lambda: np.asarray(numbers(0, 4, 5)),
        id="LoRA with b of zeros",
    ),
]


@pytest.mark.parametrize(("make", "matrix"), NESTED)
@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda w: LEFT @ w, id="x @ w"),
        pytest.param(lambda w: w.T @ LEFT.T, id="w.T @ x"),
        pytest.param(lambda w: w.T, id="w.T"),
    ],
)
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["alone", "jit"])
def test_fields_may_be_implicit_themselves(make: Any, matrix: Any, f: Any, transform: Any) -> None:
    run = transform(tq.use_implicit_args(f, handlers=ALL))
    assert_close(run(make()), f(jnp.asarray(matrix(), jnp.float32)))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_quantized_values_are_within_half_a_step_of_the_matrix(axis: int | None) -> None:
    w = numbers(3, 6, 7)
    q = Int8Matrix.quantize(w, axis=axis)
    step = np.max(np.abs(w), axis=axis, keepdims=True) / 127
    assert np.all(np.abs(dense(q) - w) <= 0.501 * step)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("f", [lambda w: LEFT @ w, lambda w: w.T @ LEFT.T, lambda w: w @ RIGHT])
def test_a_scale_per_row_column_or_matrix_is_kept_on_its_axis(axis: int | None, f: Any) -> None:
    q = Int8Matrix.quantize(WIDE, axis=axis)
    plain = jnp.asarray(np.asarray(q.values) * np.asarray(q.scale))
    assert_close(tq.use_implicit_args(f, handlers=INT8)(q), f(plain))


def test_a_fresh_adapter_changes_nothing() -> None:
    w = numbers(4, 6, 3)
    fresh = LoraMatrix.around(w, rank=2, key=jax.random.key(0), alpha=3.0)
    assert (fresh.a.shape, fresh.b.shape) == ((6, 2), (3, 2))
    assert np.any(np.asarray(fresh.a))
    np.testing.assert_array_equal(dense(fresh), w)


def test_an_adapter_of_no_rank_is_refused() -> None:
    with pytest.raises(tq.UsageError, match=r"LoraMatrix.around\(..., rank=0\): give 1 or more"):
        LoraMatrix.around(numbers(4, 6, 3), rank=0, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        pytest.param(
            lambda: LoraMatrix.around(numbers(0, 2, 3), rank=1.5, key=KEY),  # type: ignore[arg-type]  # the mistake
            "LoraMatrix.around(..., rank=1.5): give 1 or more.",
            id="rank",
        ),
        pytest.param(
            lambda: LoraMatrix.around(numbers(0, 3), rank=1, key=KEY),
            "LoraMatrix.around(Array f32[3], ...): a matrix has 2 axes.",
            id="vector",
        ),
        pytest.param(
            lambda: LoraMatrix.around(numbers(0, 4, 2, 3), rank=1, key=KEY),
            (
                "LoraMatrix.around(Array f32[4,2,3], ...): a matrix has 2 axes; for each of a "
                "stack, jax.vmap LoraMatrix.around."
            ),
            id="stack",
        ),
        pytest.param(
            lambda: Int8Matrix.quantize(jnp.ones((2, 3), jnp.int32), axis=0),
            "Int8Matrix.quantize(Array i32[2,3], ...): give a matrix of floats.",
            id="integers",
        ),
        pytest.param(
            lambda: Int8Matrix.quantize([[1.0]], axis=0),  # type: ignore[arg-type]  # the mistake
            "Int8Matrix.quantize(<list>, ...): give a matrix.",
            id="list",
        ),
        pytest.param(
            lambda: Int8Matrix.quantize(numbers(0, 2, 3), axis=2),
            "Int8Matrix.quantize(..., axis=2): a matrix has the axes 0 and 1; None is for both.",
            id="axis",
        ),
        pytest.param(lambda: Eye(-1), "Eye(-1): give the number of its rows.", id="size"),
        pytest.param(
            lambda: Eye((3, 3)),  # type: ignore[arg-type]  # the mistake
            "Eye(<tuple>): give the number of its rows.",
            id="shape",
        ),
    ],
)
def test_what_no_array_can_be_made_of_is_refused_in_a_sentence(
    make: Callable[[], Any], text: str
) -> None:
    with pytest.raises(tq.UsageError) as caught:
        make()
    assert str(caught.value) == text


def masked(seed: int) -> tuple[MaskedArray, np.ma.MaskedArray[Any, Any]]:
    """An array with missing entries, and numpy's own: the two write the mask inverted."""
    value = numbers(seed, 4, 5)
    mask = np.random.default_rng(seed).random((4, 5)) < 0.7
    return MaskedArray(value, jnp.asarray(mask)), np.ma.MaskedArray(np.asarray(value), ~mask)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        pytest.param(lambda x, y: x + y, lambda x, y: x + y, id="x + y"),
        pytest.param(lambda x, y: 2 * x - 1, lambda x, y: 2 * x - 1, id="with scalars"),
        pytest.param(lambda x, y: x * WIDE, lambda x, y: x * np.asarray(WIDE), id="x * dense"),
        pytest.param(lambda x, y: jnp.exp(x) / y, lambda x, y: np.exp(x) / y, id="exp(x) / y"),
        pytest.param(lambda x, y: x < y, lambda x, y: x < y, id="x < y"),
        pytest.param(lambda x, y: x.T[1:], lambda x, y: x.T[1:], id="moved and cut"),
        pytest.param(lambda x, y: x.reshape(20), lambda x, y: x.reshape(20), id="reshaped"),
        pytest.param(lambda x, y: x[INDICES], lambda x, y: x[np.asarray(INDICES)], id="rows"),
        pytest.param(
            lambda x, y: jnp.concatenate([x, WIDE]),
            lambda x, y: np.ma.concatenate([x, np.asarray(WIDE)]),
            id="joined",
        ),
        pytest.param(
            lambda x, y: lax.select_n(WIDE > 0, x, y),
            lambda x, y: np.ma.where(np.asarray(WIDE) > 0, y, x),
            id="chosen",
        ),
        pytest.param(
            lambda x, y: x.astype(jnp.int32), lambda x, y: x.astype(np.int32), id="converted"
        ),
        pytest.param(
            lambda x, y: x @ y.T, lambda x, y: np.ma.dot(x, y.T, strict=True), id="product"
        ),
        pytest.param(
            lambda x, y: x @ RIGHT,
            lambda x, y: np.ma.dot(x, np.ma.MaskedArray(RIGHT), strict=True),
            id="product with dense",
        ),
    ],
)
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["alone", "jit"])
def test_missing_entries_are_those_of_numpy_and_so_are_the_others(
    f: Any, g: Any, transform: Any
) -> None:
    (x, a), (y, b) = masked(0), masked(1)
    got = transform(tq.use_implicit_args(f, handlers=MASKED))(x, y)
    with np.errstate(all="ignore"):
        want = g(a, b)
    there = ~np.ma.getmaskarray(want)
    np.testing.assert_array_equal(got.mask, there)
    assert got.dtype == f(x.value, y.value).dtype
    np.testing.assert_allclose(
        np.asarray(got.value)[there], np.asarray(want.data)[there], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("f", "g"),
    [
        pytest.param(jnp.sum, np.sum, id="sum"),
        pytest.param(jnp.mean, np.mean, id="mean"),
        pytest.param(jnp.max, np.max, id="max"),
        pytest.param(jnp.prod, np.prod, id="prod"),
        pytest.param(jnp.var, np.var, id="var"),
        pytest.param(jnp.cumsum, np.cumsum, id="cumsum"),
    ],
)
def test_what_is_computed_from_a_missing_entry_is_missing(f: Any, g: Any) -> None:
    value = np.asarray(numbers(5, 3, 4))
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]], bool)
    x = MaskedArray(jnp.asarray(value), jnp.asarray(mask))
    got = tq.use_implicit_args(lambda x: f(x, axis=1), handlers=MASKED)(x)
    # NaN spreads through these as a missing entry does, so numpy's NaN tells where to expect one.
    want = g(np.where(mask, value, np.nan), axis=1)
    np.testing.assert_array_equal(got.mask, ~np.isnan(want))
    np.testing.assert_allclose(np.asarray(got.value)[got.mask], want[got.mask], rtol=1e-5)


def test_missing_entries_can_be_filled_and_counted() -> None:
    x, a = masked(0)
    np.testing.assert_array_equal(x.filled(-1.0), a.filled(-1.0))
    np.testing.assert_array_equal(x.count(axis=0), a.count(axis=0))


def test_a_masked_array_becomes_dense_only_when_told_to() -> None:
    x, a = masked(0)
    with tq.materialization("allow"), pytest.raises(tq.MaterializationError, match="MaskedArray"):
        tq.use_implicit_args(jnp.linalg.norm, handlers=tq.HandlerTable("none"))(x)
    np.testing.assert_array_equal(tq.materialize(x), a.filled(0))


@pytest.mark.parametrize("shape", [(4, 5), (4,), (0, 5)], ids=str)
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["alone", "jit"])
def test_a_loop_over_a_masked_array_keeps_what_is_missing(
    transform: Any, shape: tuple[int, ...]
) -> None:
    def f(x: Any, total: Any) -> Any:
        return lax.scan(lambda c, r: (c + r, (c + 2 * r).astype(jnp.bfloat16)), total, x)

    value = numbers(0, *shape)
    mask = np.random.default_rng(0).random(shape) < 0.7
    x, zero = MaskedArray(value, jnp.asarray(mask)), jnp.zeros(shape[1:], jnp.float32)
    there = MaskedArray(zero, jnp.ones(shape[1:], jnp.bool_))
    last, every = transform(tq.use_implicit_args(f, handlers=MASKED))(x, there)
    # NaN spreads as a missing entry does.
    want_last, want = f(jnp.where(mask, value, jnp.nan), zero)
    for got, dense in ((last, want_last), (every, want)):
        assert isinstance(got, MaskedArray)
        assert got.dtype == dense.dtype
        np.testing.assert_array_equal(got.mask, ~np.isnan(dense))
        np.testing.assert_array_equal(got.filled(0), jnp.where(jnp.isnan(dense), 0, dense))


def test_a_network_runs_over_a_masked_sequence_with_its_derivative() -> None:
    w = numbers(3, 5, 5)

    def f(x: Any, w: Array) -> Any:
        return lax.scan(lambda h, r: (jnp.tanh(h @ w + r), h), 0 * x[0], x)[0]

    x, _ = masked(0)
    x = MaskedArray(x.value, jnp.ones((4, 5), jnp.bool_).at[3, 2].set(False))
    run = tq.use_implicit_args(f, handlers=MASKED)
    got = jax.jit(jax.grad(lambda w: jnp.sum(jnp.sin(run(x, w).filled(0)))))(w)
    want = jax.grad(lambda w: jnp.sum(jnp.sin(f(x.value, w).at[2].set(0))))(w)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(run(x, w).mask, [True, True, False, True, True])


def test_a_masked_array_may_hold_zeros() -> None:
    mask = jnp.array([True, False, True])
    x = MaskedArray(Zeros(shape=(3,), dtype=jnp.float32), mask)
    got = tq.use_implicit_args(lambda x: x * 3 + 1, handlers=ALL)(x)
    np.testing.assert_array_equal(got.mask, mask)
    np.testing.assert_array_equal(got.filled(7.0), [1.0, 7.0, 1.0])


@pytest.mark.parametrize(
    ("make", "other", "f", "want", "handlers"),
    [
        pytest.param(
            lambda: Zeros(shape=(4, 4), dtype=jnp.float32),
            lambda: Eye(4),
            lambda z, e: z @ e,
            np.zeros((4, 4)),
            "zeros_times",
            id="zeros @ identity",
        ),
        pytest.param(
            lambda: Zeros(shape=(3, 4), dtype=jnp.float32),
            lambda: KINDS["lora"].make(0),
            lambda z, w: z @ w,
            np.zeros((3, 5)),
            "zeros_times",
            id="zeros @ LoRA",
        ),
        pytest.param(
            lambda: Zeros(shape=(4, 5), dtype=jnp.float32),
            lambda: KINDS["lora"].make(0),
            lambda z, w: LEFT @ (w + z),
            np.asarray(LEFT) @ np.asarray(KINDS["lora"].reference(KINDS["lora"].make(0))),
            "plus times_lora",
            id="LoRA + zeros",
        ),
        pytest.param(
            lambda: Eye(4),
            lambda: KINDS["lora"].make(0),
            lambda e, w: LEFT @ (e @ w),
            np.asarray(LEFT) @ np.asarray(KINDS["lora"].reference(KINDS["lora"].make(0))),
            "eye_times_implicit times_lora",
            id="identity @ LoRA",
        ),
    ],
)
def test_different_kinds_meet_in_one_table(
    make: Any, other: Any, f: Any, want: Any, handlers: str
) -> None:
    with recorded(ALL) as (table, ran):
        got = tq.use_implicit_args(f, handlers=table)(make(), other())
    assert " ".join(ran) == handlers
    assert_close(got, np.asarray(want, np.float32))


def test_zeros_absorb_what_is_not_finite() -> None:
    z = Zeros(shape=(2,), dtype=jnp.float32)
    run = tq.use_implicit_args(jnp.multiply, handlers=ZEROS)
    np.testing.assert_array_equal(dense(run(z, jnp.array([jnp.inf, jnp.nan]))), [0, 0])


def test_no_table_is_installed_by_the_import() -> None:
    rules = {id(rule) for rule in installed_table().rules}
    assert not rules & {id(rule) for rule in ALL.rules}


def test_nothing_can_be_said_against_any_handler() -> None:
    assert [str(found) for found in tq.check("typedqax") if "arrays" in found.file] == []


def test_a_product_compiles_to_what_is_written_by_hand() -> None:
    x, w, a, b = numbers(0, 16, 32), numbers(1, 32, 24), numbers(2, 32, 4), numbers(3, 24, 4)

    def by_hand(x: Array, w: Array, a: Array, b: Array) -> Array:
        return x @ w + (0.5 * (x @ a)) @ b.T

    def with_lora(x: Array, w: Array, a: Array, b: Array) -> Array:
        lora = LoraMatrix(w=w, a=a, b=b, alpha=0.5)
        return tq.use_implicit_args(jnp.matmul, handlers=LORA)(x, lora)

    as_for_users: dict[str, str | bool] = {
        "xla_backend_optimization_level": "3",
        "xla_cpu_use_fusion_emitters": True,
    }
    costs = []
    for f in (by_hand, with_lora):
        compiled = jax.jit(f).lower(x, w, a, b).compile(as_for_users)
        analysis, text = compiled.cost_analysis(), compiled.as_text()
        assert analysis is not None
        assert text is not None
        costs.append((analysis["flops"], text.count(" = ")))
    assert costs[0] == costs[1]


def test_a_lora_matrix_around_a_masked_one_keeps_the_mask_where_it_has_no_handler() -> None:
    mask = jnp.asarray(np.eye(4, 5) > 0)
    base, a, b = numbers(1, 4, 5), numbers(2, 4, 2), numbers(3, 5, 2)
    with tq.materialization("allow"):
        got: Any = tq.use_implicit_args(jnp.tanh, handlers=ALL)(
            LoraMatrix(MaskedArray(base, mask), a, b)
        )
    assert isinstance(got, MaskedArray)
    assert (got.mask == mask).all()
    np.testing.assert_allclose(got.value[mask], jnp.tanh(base + a @ b.T)[mask], rtol=1e-5)
