"""checkpoint, linear solves, calls, and what only takes dense arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.api_util import debug_info
from jax.custom_batching import sequential_vmap
from jax.experimental import checkify, pallas
from jax.experimental.hijax import VJPHiPrimitive
from jax.extend.core import Primitive
from jax.extend.core.primitives import call_p
from jax.extend.linear_util import wrap_init
from jax.interpreters import mlir
from jax.sharding import PartitionSpec

import typedqax as tq
from tests.agreement import (
    X,
    assert_agrees,
    assert_same,
    gradient,
    has_dense,
    low_rank,
    only,
    primitives,
    rng,
    staged,
    use,
)
from tests.implicit_kinds import HANDLERS, KINDS, LowRank, Plain, dense, numbers
from typedqax.arrays import LORA, ZEROS, LoraMatrix, Zeros

pytestmark = pytest.mark.without_leak_checks

P = PartitionSpec
ONES = jnp.ones((4, 3))


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


# --- checkpoint ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["eager", "jit of grad of jit", "jvp"])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_checkpointed_layer_gives_what_it_gives_for_dense_arrays(where: str, way: str) -> None:
    if where == "inside":
        assert_agrees(jax.checkpoint(layer), X, low_rank(), way=way)
    else:
        got = gradient(jax.checkpoint(use(layer)), X, low_rank())
        assert_same(got, gradient(lambda x, w: layer(x, dense(w)), X, low_rank()))


def test_a_checkpointed_layer_stays_one_and_runs_the_handlers() -> None:
    policy = jax.checkpoint_policies.dots_saveable
    f = jax.checkpoint(layer, policy=policy, prevent_cse=False)
    with tq.materialization("error"):
        eqn = only(f, "remat2", X, low_rank())
    assert eqn.params["policy"] is policy
    assert eqn.params["prevent_cse"] is False
    assert not has_dense(staged(f, X, low_rank()), (3, 4))
    backward = jax.make_jaxpr(lambda x, w: gradient(use(f), x, w))(X, low_rank())
    assert not has_dense(backward, (3, 4))


@pytest.mark.parametrize(
    "policy",
    [
        jax.checkpoint_policies.everything_saveable,
        jax.checkpoint_policies.nothing_saveable,
        jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
        jax.checkpoint_policies.save_only_these_names("kept"),
    ],
    ids=["everything", "nothing", "dots", "names"],
)
def test_a_policy_saves_what_it_would_of_dense_arrays(policy: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        return jnp.sin(checkpoint_name(jnp.sin(x @ w), "kept") @ w.T)

    kept = jax.checkpoint(f, policy=policy)
    with tq.materialization("error"):
        assert only(kept, "remat2", X, low_rank()).params["policy"] is policy
        assert_agrees(kept, X, low_rank(), way="grad")


def test_an_implicit_result_of_a_checkpointed_function_stays_implicit() -> None:
    got = use(jax.checkpoint(lambda w: (w.T, -w)))(low_rank())
    assert [type(each) for each in got] == [LowRank, LowRank]
    assert_same(dense(got), (dense(low_rank()).T, -dense(low_rank())))


def test_checkpoint_jit_and_scan_in_one_another() -> None:
    def f(x: Any, w: Any) -> Any:
        inner = jax.checkpoint(jax.jit(lambda x, w: layer(x, w) @ ONES))
        return lax.scan(jax.checkpoint(lambda c, _: (inner(c, w), None)), x, None, length=2)[0]

    assert_agrees(f, X, low_rank(), way="jit of grad of jit")
    assert not has_dense(staged(f, X, low_rank()), (3, 4))


# --- solves --------------------------------------------------------------------------------------

B = numbers(rng(5), 3)


def solvable() -> Plain:
    return Plain(jnp.eye(3) * 3 + numbers(rng(6), 3, 3) * 0.1)


SOLVES: dict[str, Any] = {
    "custom_linear_solve": lambda a, b: lax.custom_linear_solve(
        lambda v: a @ v,
        b,
        lambda _, b: jnp.linalg.solve(a, b),
        transpose_solve=lambda _, b: jnp.linalg.solve(a.T, b),
    ),
    "cg": lambda a, b: jax.scipy.sparse.linalg.cg(lambda v: a @ (a.T @ v), b)[0],
    "gmres": lambda a, b: jax.scipy.sparse.linalg.gmres(lambda v: a @ v, b)[0],
    "solve": jnp.linalg.solve,
    "custom_root": lambda a, b: lax.custom_root(
        lambda x: x - jnp.tanh(b) - 0.1 * (a @ x),
        b,
        lambda f, x: lax.fori_loop(0, 20, lambda _, x: x - f(x), x),
        lambda g, y: jnp.linalg.solve(jax.jacobian(g)(y), y),
    ),
}


@pytest.mark.parametrize("name", SOLVES)
def test_a_solve_gives_what_it_gives_for_dense_arrays(name: str) -> None:
    assert_agrees(SOLVES[name], solvable(), B)


@pytest.mark.parametrize("name", ["custom_linear_solve", "custom_root"])
def test_a_solve_is_differentiated_by_its_own_rule(name: str) -> None:
    assert_agrees(SOLVES[name], solvable(), B, way="grad")


@pytest.mark.parametrize("name", ["cg", "gmres", "bicgstab"])
def test_an_operator_with_handlers_is_never_made_dense_by_a_solver(name: str) -> None:
    solver: Any = getattr(jax.scipy.sparse.linalg, name)
    w, a, b = numbers(rng(1), 3, 3), numbers(rng(2), 3, 1), numbers(rng(3), 3, 1)

    def solved(matrix: Any) -> Any:
        return solver(lambda v: v * 3 + (v @ matrix) @ matrix.T, B)[0]

    with tq.materialization("error"):
        got = use(solved, LORA)(LoraMatrix(w=w, a=a, b=b))
        jax.make_jaxpr(jax.grad(lambda m: jnp.sum(use(solved, LORA)(m))))(LoraMatrix(w=w, a=a, b=b))
    assert_same(got, solved(w + a @ b.T))


def test_what_only_the_backward_pass_of_a_solve_makes_dense_says_that_it_is_there() -> None:
    def solved(w: Any, b: Any) -> Any:
        return lax.custom_linear_solve(  # x @ w has a handler, and x @ w.T has none
            lambda v: v * 3 + v @ w,
            b,
            lambda _, b: b / 3,
            transpose_solve=lambda transposed, b: transposed(b),
        )

    with (
        tq.materialization("error"),
        pytest.raises(tq.MaterializationError, match=r"dot_general.* in the backward pass at"),
    ):
        use(solved)(low_rank(3, 3), jnp.ones(3))
    with tq.materialization("error", allow={"dot_general"}):
        got = jax.grad(lambda b: jnp.sum(jax.jit(use(solved))(low_rank(3, 3), b)))(jnp.ones(3))
    assert_same(got, 3 + dense(low_rank(3, 3)) @ jnp.ones(3))


# --- calls ---------------------------------------------------------------------------------------


def called(x: Any, w: Any) -> Any:
    function = wrap_init(
        lambda x, w: [jnp.tanh(x @ w), w.T], debug_info=debug_info("test", layer, (x, w), {})
    )
    return call_p.bind(x, w, subfuns=(function,))


twice_p = Primitive("twice")
twice_p.multiple_results = True


def _twice_abstract(*avals: Any, jaxpr: Any, times: int) -> Any:
    return jaxpr.out_avals


def _twice_impl(*args: Any, jaxpr: Any, times: int) -> Any:
    for _ in range(times - 1):
        jax.extend.core.jaxpr_as_fun(jaxpr)(*args)
    return jax.extend.core.jaxpr_as_fun(jaxpr)(*args)


twice_p.def_abstract_eval(_twice_abstract)
twice_p.def_impl(_twice_impl)
mlir.register_lowering(twice_p, mlir.lower_fun(_twice_impl, multiple_results=True))


def test_an_unknown_call_of_a_function_has_it_rewritten() -> None:
    def f(x: Any, w: Any) -> Any:
        jaxpr = jax.make_jaxpr(lambda x, w: (jnp.tanh(x @ w), w.T))(x, w)
        return twice_p.bind(x, w, jaxpr=jaxpr, times=2)

    with tq.materialization("error"):
        assert only(f, "twice", X, low_rank()).params["times"] == 2
        got = use(f)(X, low_rank())
    assert isinstance(got[1], LowRank)
    assert_same(dense(got), f(X, dense(low_rank())))
    assert_same(dense(jax.jit(use(f))(X, low_rank())), f(X, dense(low_rank())))


def test_what_does_more_with_a_function_than_to_call_it_takes_dense_arrays() -> None:
    x = Plain(numbers(rng(), 4))
    assert_agrees(lambda x: lax.reduce(x, jnp.float32(1), lambda a, b: a * b + 0.0, (0,)), x)
    assert_agrees(lambda s: lax.reduce(s, jnp.float32(1), lambda a, b: a - b, ()), Plain(x.x[0]))
    composite = lax.composite(lambda x: jnp.sin(x), "tests.sine")
    assert_agrees(composite, x)
    assert primitives(composite, x)["composite"] == 1


# --- what takes dense arrays ---------------------------------------------------------------------


def double_kernel(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def through_ref(w: Any) -> Any:
    ref = jax.new_ref(w)
    ref[...] = ref[...] * 2
    return ref[...]


def beside_ref(w: Any) -> Any:
    ref = jax.new_ref(jnp.zeros((2, 4)))

    def body(w: Any, _: None) -> Any:
        ref[...] += X @ w
        return w, None

    lax.scan(body, w, None, length=2)
    return ref[...]


def checked(w: Any) -> Any:
    checkify.check(jnp.all(jnp.isfinite(w @ ONES)), "infinite")
    return w @ ONES


OUT = jax.ShapeDtypeStruct((3, 4), jnp.float32)

DENSE: dict[str, Any] = {
    "pallas_call": pallas.pallas_call(double_kernel, out_shape=OUT, interpret=True),
    "pure_callback": lambda w: jax.pure_callback(lambda a: np.asarray(a) * 2, OUT, w),
    "io_callback": lambda w: jax.experimental.io_callback(
        lambda a: np.asarray(a) * 2, OUT, w, ordered=True
    ),
    "through a ref": through_ref,
    "beside a ref": beside_ref,
    "linear_call": lambda w: jax.custom_derivatives.linear_call(
        lambda r, x: x * r, lambda r, ct: ct * r, jnp.float32(2), w
    ),
    "custom_vmap": sequential_vmap(jnp.sin),
    "vmap of custom_vmap": jax.vmap(sequential_vmap(jnp.sin)),
    "checkify inside": lambda w: checkify.checkify(checked)(w)[1],
    "linear_transpose": lambda w: jax.linear_transpose(lambda x: x @ w, X)(jnp.ones((2, 4)))[0],
    "sort": lambda w: jnp.sort(w, axis=0),
    "fft": lambda w: jnp.fft.fft(w),
    "eigh": lambda w: jnp.linalg.eigh(w @ w.T)[0],
    "hessian": lambda w: jax.hessian(lambda w: jnp.sum(jnp.tanh(X @ w)))(w),
    "jacrev": lambda w: jax.jacrev(lambda w: X @ w)(w),
}


@pytest.mark.parametrize("name", DENSE)
def test_what_takes_dense_arrays_gets_them(name: str) -> None:
    assert_agrees(DENSE[name], low_rank())
    assert_agrees(DENSE[name], low_rank(), way="jit")


def linear(x: Any, w: Any) -> Any:
    """Linear in `x`; its transpose is five times too large."""
    return jax.custom_derivatives.linear_call(
        lambda w, x: x @ w, lambda w, ct: 5 * (ct @ w.T), w, x
    )


def linear_closure(x: Any, w: Any) -> Any:
    return jax.custom_derivatives.linear_call(
        lambda _, x: x @ w, lambda _, ct: 5 * (ct @ w.T), (), x
    )


@pytest.mark.parametrize("f", [linear, linear_closure], ids=["a residual", "closed over"])
def test_a_linear_call_keeps_what_it_is_not_linear_in(f: Any) -> None:
    def pull_inside(x: Any, w: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(jnp.sin(f(x, w))))(x)

    def pull_outside(x: Any, w: Any) -> Any:
        return jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(use(f)(x, w)))))(x)

    w = low_rank()
    want = pull_inside(X, dense(w))
    assert_same(want, 5 * jnp.cos(X @ dense(w)) @ dense(w).T)
    with tq.materialization("error"):
        only(f, "linear_call", X, w)
        assert_agrees(f, X, w)
        assert_same(use(pull_inside)(X, w), want)
        assert_same(pull_outside(X, w), want)
        assert_same(jax.jvp(lambda x: use(f)(x, w), (X,), (X,)), (X @ dense(w), X @ dense(w)))
    assert not has_dense(staged(f, X, w), (3, 4))


@pytest.mark.parametrize("way", ["grad", "jvp", "linearize"])
@tq.materialization("allow")
def test_a_residual_without_leaves_is_differentiated_as_no_residual_is(way: str) -> None:
    """JAX refuses residuals with tangents, and such an array has a leaf for its shape."""
    f = tq.use_implicit_args(lambda x, w: jnp.sum(linear(x, w)), handlers=ZEROS)
    args, nothing = (X, Zeros(shape=(3, 4), dtype=jnp.float32)), jnp.float32(0)
    if way == "grad":
        by_x, by_w = jax.grad(f, argnums=(0, 1))(*args)
        assert type(by_w) is Zeros
        assert_same(by_x, jnp.zeros_like(X))
    elif way == "jvp":
        assert_same(jax.jvp(f, args, args), (nothing, nothing))
    else:
        out, push = jax.linearize(f, *args)
        assert_same((out, push(*args)), (nothing, nothing))


def test_debugging_sees_the_dense_array(capsys: pytest.CaptureFixture[str]) -> None:
    use(lambda p: jax.debug.print("p is {}", p))(Plain(jnp.arange(3.0)))
    jax.effects_barrier()
    assert capsys.readouterr().out == "p is [0. 1. 2.]\n"


def test_checkify_outside_finds_errors_inside() -> None:
    error, got = checkify.checkify(use(checked))(low_rank())
    error.throw()
    assert_same(got, dense(low_rank()) @ ONES)
    bad = LowRank(low_rank().a * jnp.inf, low_rank().b)
    error, _ = checkify.checkify(use(checked))(bad)
    with pytest.raises(checkify.JaxRuntimeError, match="infinite"):
        error.throw()


def test_calls_that_jax_kept_keep_implicit_results() -> None:
    with tq.materialization("error"):
        got = use(called)(X, low_rank())
    assert isinstance(got[1], LowRank)
    assert_same(dense(got), [layer(X, dense(low_rank())), dense(low_rank()).T])
    assert_agrees(called, X, low_rank(), way="grad")


# --- transformations outside ---------------------------------------------------------------------


@pytest.mark.parametrize("in_axes", [0, -3])
def test_stacked_arrays_are_mapped_from_outside(in_axes: int) -> None:
    ws = jax.tree.map(lambda *leaves: jnp.stack(leaves), low_rank(), low_rank(seed=1))
    got = jax.vmap(use(layer), in_axes=(None, in_axes))(X, ws)
    assert_same(got, jax.vmap(layer, in_axes=(None, 0))(X, dense(ws)))


def test_transformations_of_every_kind_from_outside() -> None:
    w = low_rank()

    def loss(w: Any) -> Any:
        return jnp.sum(layer(X, w))

    f, g = use(loss), lambda w: loss(dense(w))
    for transformation in (
        lambda f: jax.value_and_grad(f),
        lambda f: jax.grad(lambda w: (f(w), {"aux": f(w)}), has_aux=True),
        jax.jacfwd,
        jax.jacrev,
        jax.hessian,
        lambda f: lambda w: jax.linearize(f, w)[1](w),
        lambda f: lambda w: jax.vjp(f, w)[1](jnp.float32(1)),
        lambda f: lambda w: jax.jvp(f, (w,), (w,)),
    ):
        # the arrays' own trees differ in what is inside, so the leaves are what is compared
        assert_same(
            jax.tree.leaves(jax.jit(transformation(f))(w)),
            jax.tree.leaves(jax.jit(transformation(g))(w)),
        )


def test_inside_the_transform_the_gradient_is_that_of_the_array() -> None:
    for kind in ("low_rank", "quantized", "scaled_low_rank", "zeros"):
        w = KINDS[kind].make(rng(), (3, 4))
        assert_agrees(jax.grad(lambda w: jnp.sum(layer(X, w))), w)
        assert_agrees(jax.value_and_grad(lambda w: jnp.sum(jnp.sin(w) * w)), w)


def test_part_of_the_fields_is_differentiated() -> None:
    w = low_rank()
    got = jax.grad(lambda a: jnp.sum(use(layer)(X, LowRank(a, w.b, w.scale))))(w.a)
    assert_same(got, jax.grad(lambda a: jnp.sum(layer(X, w.scale * (a @ w.b.T))))(w.a))


def test_an_array_that_is_not_mapped_is_the_same_for_all() -> None:
    def f(w: Any) -> Any:
        return X @ w * (1 + lax.axis_index("i").astype(jnp.float32))

    def outside(f: Any) -> Any:
        return jax.vmap(f, in_axes=None, axis_size=3, axis_name="i")

    want = outside(f)(dense(low_rank()))
    assert_same(outside(use(f))(low_rank()), want)
    assert_same(use(outside(f))(low_rank()), want)


def test_a_function_is_mapped_over_devices() -> None:
    pmapped = jax.pmap(use(layer), in_axes=(0, None))(jnp.stack([X, 2 * X]), low_rank())
    assert_same(pmapped, layer(jnp.stack([X, 2 * X]), dense(low_rank())))


def test_collectives_of_a_mapped_axis() -> None:
    def f(x: Any, w: Any) -> Any:
        return jax.vmap(lambda x: lax.psum(x @ w, "i"), axis_name="i")(x)

    assert_agrees(f, X, low_rank())
    ws = jax.tree.map(lambda *leaves: jnp.stack(leaves), low_rank(), low_rank(seed=1))
    got = jax.vmap(use(lambda w: lax.psum(X @ w, "i")), axis_name="i")(ws)
    assert_same(got, jax.vmap(lambda w: lax.psum(X @ w, "i"), axis_name="i")(dense(ws)))


def test_a_class_whose_field_is_a_key() -> None:
    class Noise(tq.ImplicitArray, materialization="allow"):
        key: Any

        def materialize(self) -> Array:
            return jax.random.normal(self.key, self.shape)

    noise = Noise(jax.random.key(0), shape=(3,), dtype=jnp.float32)
    want = jax.random.normal(jax.random.key(0), (3,))
    loop = use(lambda n: lax.fori_loop(0, 2, lambda _, c: c + n, jnp.zeros(3)), HANDLERS)
    assert_same(loop(noise), 2 * want)
    assert_same(jax.jit(use(lax.stop_gradient))(noise).materialize(), want)


# --- high-level primitives -----------------------------------------------------------------------


class Fivefold(VJPHiPrimitive):
    """Twice its operand, with a gradient that is five times too large."""

    def __init__(self, aval: Any) -> None:
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in JAX

    def expand(self, x: Any) -> Any:
        return x * 2

    def vjp_fwd(self, nonzero: Any, x: Any) -> Any:
        return self(x), None

    def vjp_bwd_retval(self, residuals: Any, ct: Any) -> Any:
        return (ct * 10,)


def fivefold(x: Any) -> Any:
    return Fivefold(jax.typeof(x))(x)


def test_a_high_level_primitive_beside_implicit_arrays_keeps_its_rule() -> None:
    def f(x: Any, w: Any) -> Any:
        return jnp.sum(fivefold(x @ w))

    for wrap in (lambda g: g, jax.jit):
        got = jax.grad(wrap(use(f)), argnums=(0, 1))(X, low_rank())
        want = jax.grad(wrap(lambda x, w: f(x, dense(w))), argnums=(0, 1))(X, low_rank())
        assert_same(got, want)
        inside = use(wrap(jax.grad(f, argnums=(0, 1))))(X, low_rank())
        assert_same(inside, wrap(jax.grad(f, argnums=(0, 1)))(X, dense(low_rank())))


def test_a_high_level_primitive_takes_dense_arrays() -> None:
    assert_agrees(fivefold, low_rank())
    assert_agrees(lambda w: jax.grad(lambda w: jnp.sum(fivefold(w)))(w), low_rank())


@pytest.mark.parametrize("transposed", [True, False])
def test_a_linear_solve_need_not_have_all_its_functions(transposed: bool) -> None:
    def f(x: Any, w: Any) -> Any:
        def solve(_: Any, b: Any) -> Any:
            return b / 2.0

        back = solve if transposed else None
        return lax.custom_linear_solve(lambda v: 2.0 * v, x, solve, back) @ w

    assert_same(use(f)(X, Plain(dense(low_rank()))), f(X, dense(low_rank())))


def test_a_solve_of_what_is_made_of_nothing_is_differentiated() -> None:
    def f(y: Any) -> Any:
        matrix = y[:, None] @ y[None] + 2.0 * jnp.eye(3)
        return jnp.sum(jax.scipy.sparse.linalg.cg(lambda v: matrix @ v, y, maxiter=3)[0])

    def gradient(z: Any) -> Any:
        return jax.grad(lambda z: tq.materialize(use(f, ZEROS)(z)), allow_int=True)(z)

    zeros = Zeros(shape=(3,), dtype=jnp.float32)
    with tq.materialization("allow"):
        assert type(gradient(zeros)) is Zeros
        assert_same(use(f, ZEROS)(zeros), f(jnp.zeros(3)))
