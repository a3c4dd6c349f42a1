"""Errors, leaks, threads, and what is said: what a user meets when something goes wrong."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from tests.agreement import X, assert_agrees, assert_same, low_rank, total, use
from tests.implicit_kinds import HANDLERS, LowRank, Plain, dense
from typedqax import _jax, ops


class Fragile(tq.ImplicitArray, materialization="allow"):
    """Fails wherever it is asked to."""

    x: Float[tq.ArrayValue, "n"]
    where: str = tq.aux_field(default="")

    def compute_shape(self) -> tuple[int, ...]:
        return self.x.shape

    def compute_dtype(self) -> Any:
        return self.x.dtype

    def materialize(self) -> Float[Array, "n"]:
        if self.where == "materialize":
            raise ZeroDivisionError("in materialize")
        return self.x


def sine(f: Fragile, /, **params: Any) -> Fragile:
    if f.where == "handler":
        raise ZeroDivisionError("in the handler")
    return Fragile(jnp.sin(f.x), f.where)


FRAGILE = tq.HandlerTable("fragile", ops.sin.to(sine))


def body(x: Any) -> Any:
    return jnp.cumsum(jnp.sin(x))


@jax.custom_vjp
def with_rule(x: Any) -> Any:
    return body(x)


def _with_rule_bwd(_: None, ct: Any) -> Any:
    raise ZeroDivisionError("in bwd")


with_rule.defvjp(lambda x: (body(x), None), _with_rule_bwd)

PLACES: dict[str, Any] = {
    "f": body,
    "jit": jax.jit(body),
    "scan": lambda x: lax.scan(lambda c, _: (body(x), None), x, None, length=2)[0],
    "while": lambda x: lax.while_loop(lambda c: True, body, x),
    "cond": lambda x: lax.cond(True, body, jnp.sin, x),
    "checkpoint": jax.checkpoint(body),
    "custom_vjp": with_rule,
    "custom_jvp": lambda x: jax.nn.relu(body(x)),
    "vmap": lambda x: jax.vmap(lambda y: body(x) + y)(jnp.ones(2)),
    "grad": jax.grad(lambda x: jnp.sum(body(x))),
}


@pytest.mark.parametrize("where", ["handler", "materialize"])
@pytest.mark.parametrize("place", PLACES)
def test_an_exception_leaves_no_trace_and_shows_its_own_frame(place: str, where: str) -> None:
    outside = _jax.current_trace()
    with pytest.raises(ZeroDivisionError, match="in") as caught:
        use(PLACES[place], FRAGILE)(Fragile(jnp.ones(3), where))
    assert _jax.current_trace() is outside
    names = {frame.name for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert {"sine", "materialize"} & names
    assert_same(jnp.sin(jnp.ones(2)), jax.jit(jnp.sin)(jnp.ones(2)))
    assert_agrees(lambda x, w: jnp.tanh(x @ w), X, low_rank())


def test_an_exception_in_a_backward_pass_is_the_user_s_own() -> None:
    f, outside = Fragile(jnp.ones(3)), _jax.current_trace()
    with pytest.raises(ZeroDivisionError, match="in bwd"):
        jax.grad(lambda f: total(use(with_rule, FRAGILE)(f)))(f)
    assert _jax.current_trace() is outside


def test_an_exception_in_a_rewritten_body_is_not_remembered() -> None:
    fails = [True]

    def once(f: Fragile, /, **params: Any) -> Fragile:
        if fails:
            raise ZeroDivisionError(fails.pop())
        return Fragile(jnp.sin(f.x))

    table, jitted = tq.HandlerTable("once", ops.sin.to(once)), jax.jit(jnp.sin)
    with pytest.raises(ZeroDivisionError):
        use(jitted, table)(Fragile(jnp.ones(3)))
    assert isinstance(use(jitted, table)(Fragile(jnp.ones(3))), Fragile)


@jax.custom_vjp
def _squared(w: Any) -> Any:
    return jnp.sum(w * w)


_squared.defvjp(lambda w: (jnp.sum(w * w), w), lambda w, ct: (2 * ct * w,))

LEAKS: dict[str, Any] = {
    "jit": lambda x, w: jax.jit(lambda x: jnp.tanh(x @ w))(x),
    "jit of grad": lambda x, w: jax.jit(jax.grad(lambda x: jnp.sum(x @ w)))(x),
    "scan": lambda x, w: lax.scan(lambda c, _: (c * 2, c @ w), x, None, length=2),
    "while": lambda x, w: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1]), (0, w)),
    "cond": lambda x, w: lax.cond(jnp.sum(x) > 0, lambda: x @ w, lambda: -(x @ w)),
    "checkpoint": lambda x, w: jax.checkpoint(lambda x: x @ w)(x),
    "custom_jvp": lambda x, w: jax.nn.relu(x @ w) + jnp.sum(jax.nn.relu(w)),
    "custom_vjp": lambda x, w: _squared(w) + jnp.sum(x @ w),
    "vmap": lambda x, w: jax.vmap(lambda row: row @ w)(x),
    "grad": lambda x, w: jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(w),
    "linear solve": lambda x, w: lax.custom_linear_solve(
        lambda v: v + jnp.sum(w), x, lambda _, b: b - jnp.sum(w)
    ),
}


@pytest.mark.parametrize("outside", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", LEAKS)
def test_nothing_leaks(name: str, outside: Any) -> None:
    with jax.checking_leaks():
        outside(use(LEAKS[name]))(X, low_rank())


def test_a_leaked_tracer_is_reported() -> None:
    kept: list[Any] = []

    def keep(w: Any) -> Any:
        kept.append(w)
        return w @ w.T

    with pytest.raises(Exception, match="Leaked"), jax.checking_leaks():
        use(keep)(low_rank())
    kept.clear()
    with jax.check_tracer_leaks(False):
        use(keep)(low_rank())
        with pytest.raises(jax.errors.UnexpectedTracerError):
            jnp.sin(kept[0])


def test_threads_do_not_see_one_another() -> None:
    start = threading.Barrier(4)

    def run(seed: int) -> Any:
        start.wait(60)
        w = low_rank(seed=seed)
        with tq.materialization("error" if seed % 2 else "allow"):
            got = use(lambda x, w: jax.jit(lambda x, w: jnp.tanh(x @ w))(x, w))(X, w)
            assert_same(got, jnp.tanh(X @ dense(w)))
            return jax.jit(jax.grad(lambda w: total(use(jax.checkpoint(jnp.matmul))(X, w))))(w)

    with jax.check_tracer_leaks(False), ThreadPoolExecutor(4) as pool:
        got = list(pool.map(run, range(4)))
    for seed, each in enumerate(got):
        assert_same(each, jax.grad(lambda w: total(X @ dense(w)))(low_rank(seed=seed)))


def test_threads_share_one_jitted_function() -> None:
    layer = jax.jit(lambda x, w: jnp.tanh(x @ w))
    w = low_rank()

    def run(_: int) -> Any:
        return use(layer)(X, w)

    with jax.check_tracer_leaks(False), ThreadPoolExecutor(4) as pool:
        for got in pool.map(run, range(8)):
            assert_same(got, jnp.tanh(X @ dense(w)))


def test_the_transform_inside_itself_and_inside_handlers() -> None:
    def through(p: Plain, /, **params: Any) -> Array:
        inner: Any = tq.use_implicit_args(lambda w: jnp.sum(X @ w), handlers=HANDLERS)
        return jnp.multiply(p.x, jnp.cos(inner(low_rank())))

    table = tq.HandlerTable("recursive", ops.cos.to(through))
    f = use(lambda p: use(jax.jit(jnp.cos), table)(p) + use(jnp.sin)(p))
    got = f(Plain(jnp.ones(3)))
    assert_same(got, jnp.cos(jnp.sum(X @ dense(low_rank()))) + jnp.sin(jnp.ones(3)))


def test_arrays_that_are_closed_over_reach_inner_functions() -> None:
    w = low_rank()

    @jax.jit
    def inner(x: Any) -> Any:
        return jnp.tanh(x @ w)

    def f(x: Any, v: Any) -> Any:
        return inner(x) + x @ v + lax.fori_loop(0, 2, lambda _, c: c + x @ w, jnp.zeros((2, 4)))

    want = jnp.tanh(X @ dense(w)) + X @ dense(w) * 3
    for _ in range(2):
        assert_same(use(f)(X, w), want)
        assert_same(jax.jit(use(f))(X, w), want)


def test_dense_values_stay_concrete() -> None:
    def f(x: Any, w: Any) -> Any:
        if jnp.sum(x) > 1e9:
            return x
        with jax.ensure_compile_time_eval():
            scale = float(jnp.sum(jnp.ones(3)))
        return jnp.compress(jnp.array([True, False]), x, axis=0) @ w * jnp.float32(scale)

    assert_agrees(f, X, low_rank())


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "float8_e4m3fn", "complex64", "bool"])
def test_dtypes_of_every_kind(dtype: str) -> None:
    value = Plain(jnp.array([1, 0, 1]).astype(dtype))

    def f(p: Any) -> Any:
        loop = lax.fori_loop(0, 2, lambda _, c: jnp.where(c == p, p, c), p)
        one = lax.cond(jnp.ones(()) > 0, lambda: loop, lambda: p)
        return jax.jit(lambda p: (p.T, jax.checkpoint(jnp.ravel)(p)))(one)

    assert_agrees(f, value)
    assert_agrees(f, value, way="jit")


def test_double_precision() -> None:
    with jax.enable_x64(True):
        w = LowRank(jnp.ones((3, 2)), jnp.ones((4, 2)), 0.5)
        assert w.dtype == jnp.float64
        assert_agrees(
            lambda w: lax.scan(lambda c, _: (c * 2.0, jnp.sum(c)), w, None, length=2), w, way="jit"
        )


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_of_every_implementation(impl: str) -> None:
    keys = Plain(jax.random.split(jax.random.key(3, impl=impl), 3))

    def f(k: Any, x: Any) -> Any:
        one = lax.cond(jnp.sum(x) > 0, lambda: k, lambda: k[::-1])
        rows = lax.scan(lambda c, k: (c, jax.random.normal(k, (2,))), 0, k)[1]
        both = jax.jit(lambda k: jnp.where(jnp.array([True, False, True]), k, k[::-1]))(one)
        return both, rows + jnp.sum(x), jax.vmap(lambda k: jax.random.fold_in(k, 1))(k)

    with jax.check_tracer_leaks(False):
        assert_agrees(f, keys, jnp.ones(3))
        got = jax.grad(lambda x: total(use(f)(keys, x)))(jnp.ones(3))
        assert_same(got, jax.grad(lambda x: total(f(keys.x, x)))(jnp.ones(3)))


def test_float0_goes_through() -> None:
    zeros: Any = np.zeros((3,), jax.dtypes.float0)
    for f in (lambda b: b, jax.jit(lambda b: b), lax.stop_gradient):
        got = use(f)(Plain(zeros))
        assert (got.shape, got.dtype) == ((3,), jax.dtypes.float0)


# --- what was closed over, to JAX's own functions -----------------------------------------------

CLOSED_OVER = low_rank(3, 3, seed=4)

AS_PYTREES: dict[str, Any] = {
    "scan": lambda v: lax.scan(lambda c, _: (-c, None), v, None, length=2)[0],
    "while": lambda v: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, -s[1]), (0, v))[1],
    "fori": lambda v: lax.fori_loop(0, 2, lambda _, c: -c, v),
    "cond": lambda v: lax.cond(jnp.bool_(True), lambda: v, lambda: jnp.ones((3, 3))),
}


@pytest.mark.parametrize("name", AS_PYTREES)
def test_a_pytree_where_jax_wants_an_array_is_explained(name: str) -> None:
    with pytest.raises(TypeError, match="pytree structure") as caught:
        use(lambda w: AS_PYTREES[name](CLOSED_OVER))(low_rank())
    note = "".join(caught.value.__notes__)
    assert "and a pytree of its fields to JAX's other functions (scan, cond, jit, ...)" in note
    assert "x = jnp.asarray(x)" in note


def test_an_error_about_other_pytrees_is_left_as_it_is() -> None:
    with pytest.raises(TypeError, match="pytree structure") as caught:
        use(lambda w: lax.cond(jnp.bool_(True), lambda: w, lambda: (w, w)))(low_rank())
    assert "closed over" not in "".join(getattr(caught.value, "__notes__", ()))


@pytest.mark.parametrize("name", AS_PYTREES)
def test_asarray_makes_one_array_of_what_was_closed_over(name: str) -> None:
    got = use(lambda w: AS_PYTREES[name](jnp.asarray(CLOSED_OVER)))(low_rank())
    assert_same(dense(got), dense(CLOSED_OVER))


def test_what_asarray_made_one_array_is_mapped_and_differentiated_as_one() -> None:
    def f(w: Any, v: Any) -> Any:
        v = jnp.asarray(v)
        rows = lax.scan(lambda c, row: (c, row * 2), 0, v)[1]
        return jax.grad(lambda a: jnp.sum(a * a))(v), rows, jax.vmap(lambda row: row * 3)(v)

    want = f(None, dense(CLOSED_OVER))
    assert_same(dense(use(lambda w: f(w, CLOSED_OVER))(low_rank())), want)
