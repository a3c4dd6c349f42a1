"""jit inside the transform: it stays, with all that was said of it."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Float

import typedqax as tq
from tests.agreement import WAYS, X, assert_agrees, assert_same, equations, low_rank, only, rng, use
from tests.implicit_kinds import HANDLERS, LowRank, Plain, dense, numbers
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks


def product(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


@pytest.mark.parametrize("way", WAYS)
def test_a_jitted_function_gives_what_it_gives_for_dense_arrays(way: str) -> None:
    assert_agrees(lambda x, w: jax.jit(product)(x, w), X, low_rank(), way=way)


def test_a_jitted_function_stays_one_and_keeps_its_name() -> None:
    eqn = only(jax.jit(product), "jit", X, low_rank())
    assert eqn.params["name"] == "product"


def test_an_inlined_function_leaves_no_trace() -> None:
    assert not [
        eqn
        for eqn in equations(jax.make_jaxpr(use(jax.jit(product, inline=True)))(X, low_rank()))
        if eqn.primitive.name == "jit"
    ]


STAGED: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: jax.jit(f)(X),
    "jit of grad": lambda f: jax.jit(jax.grad(f))(X),
    "grad of jit": lambda f: jax.grad(jax.jit(f))(X),
    "jit of jvp": lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(X),
    "jit of vmap": lambda f: jax.jit(jax.vmap(f))(jnp.stack([X, X])),
}
AT_ONCE: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f(X),
    "grad": lambda f: jax.grad(f)(X),
    "vmap": lambda f: jax.vmap(f)(jnp.stack([X, X])),
    "in another": lambda f: tq.use_implicit_args(lambda x, _: f(x))(X, Plain(X)),
}


@pytest.mark.parametrize("way", [*STAGED, *AT_ONCE])
def test_an_inlined_function_is_rewritten_once_for_each_type_where_it_is_staged(way: str) -> None:
    ran = list[tuple[int, ...]]()

    def times(x: Array, w: Float[LowRank, "m n"], /, **params: Any) -> Array:
        ran.append(x.shape)
        assert way in STAGED or float(w.scale) == 0.5, (
            "its numbers are there, where all runs at once"
        )
        return jnp.asarray((x @ w.a) @ w.b.T * w.scale)

    table = tq.HandlerTable("times", ops.dot_general.to(times))
    w, other = low_rank(), low_rank()

    def loss(x: Any) -> Any:
        f: Any = tq.use_implicit_args(
            lambda w, v: jnp.sum(x @ w + x @ w + x @ v) + jnp.sum(x[0] @ w), handlers=table
        )
        return f(w, other)

    def dense_loss(x: Any) -> Any:
        product = x @ dense(w)
        return jnp.sum(product + product + x @ dense(other)) + jnp.sum(product[0])

    apply = {**STAGED, **AT_ONCE}[way]
    got = apply(loss)
    assert ran == ([(2, 3), (3,)] if way in STAGED else [(2, 3), (2, 3), (2, 3), (3,)])
    assert_same(got, apply(dense_loss))


@pytest.mark.parametrize("way", ["eager", "jit", "grad"])
def test_a_table_made_per_call_goes_with_what_its_handlers_close_over(way: str) -> None:
    handlers = list[weakref.ref[Any]]()

    def call() -> None:
        held = jnp.ones((2, 3))

        def cosine(w: Plain, /) -> Array:
            return jnp.asarray(jnp.cos(w.x) * held)

        handlers.append(weakref.ref(cosine))
        f = use(lambda w: jnp.sum(jnp.cos(w)), tq.HandlerTable("cosine", ops.cos.to(cosine)))
        transform: Any = {"eager": lambda f: f, "jit": jax.jit, "grad": jax.grad}[way]
        transform(lambda x: f(Plain(x)))(X)

    for _ in range(3):
        call()
    gc.collect()
    assert [handler() for handler in handlers] == [None] * 3


def test_each_call_of_an_inlined_function_is_said_where_it_is() -> None:
    class Said(tq.ImplicitArray):
        x: Any

        def materialize(self) -> Array:
            return jnp.asarray(self.x)

    def f(p: Any) -> Any:
        one = jnp.matmul(p, p)
        return one + jnp.matmul(p, p)

    with pytest.warns(tq.MaterializationWarning) as caught:
        jax.jit(use(f))(Said(jnp.eye(3)))
    said = [str(each.message).split(" at ")[1].split(";")[0] for each in caught]
    line = f.__code__.co_firstlineno
    assert said == [f"{__file__}:{line + 1}", f"{__file__}:{line + 2}"]


@pytest.mark.parametrize("way", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_numbers_that_stand_in_an_inlined_function_come_out_as_arrays(way: Any) -> None:
    constants = jax.jit(lambda _: (2.0, jnp.float32(3), 1, True), inline=True)
    got, want = way(use(constants))(Plain(jnp.ones(3))), constants(jnp.ones(3))
    for one, other in zip(got, want, strict=True):
        assert isinstance(one, Array)
        assert (jax.typeof(one), one.tolist()) == (jax.typeof(other), other.tolist())


def test_donation_is_that_of_every_leaf() -> None:
    f = jax.jit(product, donate_argnums=1)
    assert only(f, "jit", X, low_rank()).params["donated_invars"] == (False, True, True)


def test_unused_arguments_are_kept_where_the_function_says_so() -> None:
    f = jax.jit(lambda x, w: x, keep_unused=True)
    assert only(f, "jit", X, low_rank()).params["keep_unused"] is True


def test_static_arguments_are_those_of_the_function() -> None:
    @functools.partial(jax.jit, static_argnames=("power",))
    def f(w: Any, power: int) -> Any:
        return (w @ w.T) * power

    assert_agrees(lambda w: f(w, power=2) + f(w, power=3), low_rank())


def test_what_replicates_holds_of_leaves_and_what_splits_of_dense_arrays_alone() -> None:
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec("i"))
    whole = NamedSharding(mesh, PartitionSpec())
    f = jax.jit(lambda x, w, v: x @ w + jnp.sum(v), in_shardings=(split, split, whole))
    args = numbers(rng(1), 2, 4), low_rank(4, 4), Plain(jnp.ones(3))
    given = only(f, "jit", *args).params["in_shardings"]
    assert (given[0], given[3]) == (split, whole)
    assert given[1] is given[2]
    assert not isinstance(given[1], NamedSharding)
    assert_agrees(f, *args)


def test_shardings_of_implicit_results_are_those_of_their_leaves() -> None:
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec(None, "i"))
    whole = NamedSharding(mesh, PartitionSpec())
    f = jax.jit(lambda x, w: (x @ w, w.T, -w), out_shardings=(split, whole, split))
    given = only(f, "jit", X, low_rank()).params["out_shardings"]
    assert given[:3] == (split, whole, whole)
    assert given[3] is given[4]
    assert not isinstance(given[3], NamedSharding)
    assert_agrees(f, X, low_rank(), way="jit")


def test_an_implicit_result_of_a_jitted_function_stays_implicit() -> None:
    with tq.materialization("error"):
        got = use(jax.jit(lambda w: {"w": w.T * jnp.float32(2.0)}))(low_rank())
    assert isinstance(got["w"], LowRank)
    assert_same(dense(got)["w"], dense(low_rank()).T * 2)


# --- the cache of rewritten functions ------------------------------------------------------------


class Counted(tq.ImplicitArray):
    """Counts how often its handler runs."""

    x: Float[tq.ArrayValue, "n"]

    def materialize(self) -> Float[Array, "n"]:
        return self.x


def counting() -> tuple[tq.HandlerTable, list[int]]:
    runs: list[int] = []

    def sine(c: Counted, /, **params: Any) -> Counted:
        runs.append(1)
        return Counted(jnp.sin(c.x))

    return tq.HandlerTable("counting", ops.sin.to(sine)), runs


def test_a_jitted_layer_is_rewritten_once_for_each_type() -> None:
    table, runs = counting()
    layer = jax.jit(jnp.sin)

    def model(c: Any) -> Any:
        for _ in range(5):
            c = layer(c)
        return c

    jax.make_jaxpr(use(model, table))(Counted(jnp.ones(3)))
    assert len(runs) == 1
    jax.make_jaxpr(use(model, table))(Counted(jnp.ones(3)))
    assert len(runs) == 1
    jax.make_jaxpr(use(model, table))(Counted(jnp.ones(4)))
    assert len(runs) == 2


def test_a_loop_body_that_keeps_its_types_is_rewritten_once() -> None:
    table, runs = counting()
    use(lambda c: jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c), c), table)(Counted(jnp.ones(3)))
    assert len(runs) == 1


def test_a_handler_that_is_installed_later_is_seen_inside_a_jitted_function() -> None:
    table, runs = counting()
    f = use(jax.jit(jnp.sin), None)
    with tq.materialization("allow"):
        assert isinstance(f(Counted(jnp.ones(3))), jax.Array)
    with tq.installed(table):
        assert isinstance(f(Counted(jnp.ones(3))), Counted)
    with tq.materialization("allow"):
        assert isinstance(f(Counted(jnp.ones(3))), jax.Array)
    assert len(runs) == 1


def test_a_policy_is_that_of_the_call_and_not_of_the_first_one() -> None:
    f = use(jax.jit(jnp.cos), None)
    with tq.materialization("allow"):
        f(Counted(jnp.ones(3)))
    with tq.materialization("error"), pytest.raises(tq.MaterializationError, match="cos"):
        f(Counted(jnp.ones(3)))
    with pytest.warns(tq.MaterializationWarning, match="cos"):
        f(Counted(jnp.ones(3)))


def test_what_becomes_dense_in_a_remembered_body_is_said_each_time() -> None:
    layer = jax.jit(jnp.cos)
    for _ in range(2):
        with pytest.warns(tq.MaterializationWarning) as caught:
            use(lambda c: layer(c), None)(Counted(jnp.ones(5)))
        assert len(caught) == 1


def test_no_function_is_kept_alive_by_having_been_rewritten() -> None:
    def once() -> weakref.ref[Any]:
        def f(w: Any) -> Any:
            return jnp.sin(w @ w.T)

        jitted = jax.jit(f)
        use(lambda w: jitted(w))(low_rank())
        closed = jax.make_jaxpr(jitted)(dense(low_rank())).eqns[0].params["jaxpr"]
        use(lambda w: jitted(w))(low_rank())
        return weakref.ref(closed)

    alive = once()
    jax.clear_caches()
    gc.collect()
    assert alive() is None


def test_no_array_is_kept_alive_by_having_been_used() -> None:
    def once() -> weakref.ref[Any]:
        p = Plain(numbers(rng(), 3))

        def f(x: Any) -> Any:
            return jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=2)

        use(jax.jit(f))(p)
        return weakref.ref(p.x)

    alive = once()
    gc.collect()
    assert alive() is None


def test_equal_types_are_compiled_once() -> None:
    traces = []

    @jax.jit
    def f(w: Any, x: Any) -> Any:
        traces.append(1)
        return tq.use_implicit_args(product, handlers=HANDLERS)(x, w)

    for seed in range(3):
        f(low_rank(seed=seed), X)
    assert len(traces) == 1
    f(LowRank(low_rank().a, low_rank().b, 2.0), X)
    assert len(traces) == 2


# --- ahead of time -------------------------------------------------------------------------------


def test_lowering_and_compiling_ahead_of_time() -> None:
    lowered = jax.jit(use(product)).lower(X, low_rank())
    assert_same(lowered.compile()(X, low_rank()), product(X, dense(low_rank())))


def test_evaluating_shapes_alone() -> None:
    shape = jax.eval_shape(use(lambda w: (w.T, w @ w.T)), low_rank())
    assert isinstance(shape[0], LowRank)
    assert (shape[0].shape, shape[1].shape) == ((4, 3), (3, 3))


def test_donating_implicit_arguments_from_outside() -> None:
    w = low_rank()
    want = dense(w) * 2
    got = jax.jit(use(lambda w: w * jnp.float32(2.0)), donate_argnums=0)(w)
    assert_same(dense(got), want)
    assert w.a.is_deleted()


def test_exporting_a_function_of_implicit_arrays() -> None:
    w = low_rank()
    exported = jax.export.export(jax.jit(use(product)))(X, w)
    assert [aval.shape for aval in exported.in_avals] == [X.shape, w.a.shape, w.b.shape]
    assert_same(exported.call(X, w), product(X, dense(w)))


def test_symbolic_shapes_are_exported() -> None:
    (n,) = jax.export.symbolic_shape("n")
    p = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((n,), leaf.dtype), Plain(numbers(rng(), 3)))
    exported = jax.export.export(jax.jit(use(lambda p: jnp.sin(p))))(p)
    assert exported.out_avals[0].shape == (n,)
