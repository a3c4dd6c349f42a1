"""A unit is never dropped: a class that must not become dense, at every place where one could."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_batching import sequential_vmap
from jax.experimental import io_callback, pallas
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Float

import typedqax as tq
from tests.agreement import assert_same, use
from tests.implicit_kinds import Plain
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks


class Quantity(tq.ImplicitArray, materialization="error"):
    """Numbers with a unit; without it they mean nothing, so that nothing here computes them."""

    x: Float[tq.ArrayValue, ""]
    unit: str = tq.aux_field(default="m")

    def compute_shape(self) -> tuple[int, ...]:
        return ()

    def compute_dtype(self) -> Any:
        return self.x.dtype

    def materialize(self) -> Any:
        raise AssertionError("the unit was dropped")


def negate(q: Quantity, /) -> Quantity:
    return Quantity(-q.x, q.unit)


def total(q: Quantity, /, *, axes: Any, **params: Any) -> Quantity:
    return Quantity(ops.reduce_sum.bind(q.x, axes=axes, **params), q.unit)


def scale(q: Quantity, s: Float[jax.Array, "..."], /, **params: Any) -> Quantity:
    return Quantity(ops.mul.bind(q.x, s, **params), q.unit)


def times(q: Quantity, r: Quantity, /, **params: Any) -> Quantity:
    return Quantity(ops.mul.bind(q.x, r.x, **params), f"{q.unit} {r.unit}")


def plus(q: Quantity, r: Quantity, /, **params: Any) -> Quantity | tq.Declined:
    if q.unit != r.unit:
        return tq.DECLINE
    return Quantity(ops.add.bind(q.x, r.x, **params), q.unit)


def at_least(q: Quantity, s: Float[jax.Array, "..."], /) -> Quantity:
    return Quantity(ops.max.bind(q.x, s), q.unit)


UNITS = tq.HandlerTable(
    "units",
    ops.neg.to(negate),
    ops.reduce_sum.to(total),
    ops.mul.to(scale, commutative=True),
    ops.mul.to(times),
    ops.add.to(plus),
    ops.max.to(at_least, commutative=True),
)
METRES = Quantity(jnp.array([-1.0, 2.0, 3.0]))
YES, TWO = jnp.bool_(True), jnp.float32(2)

KEEPS: dict[str, Any] = {
    "cond": lambda q: lax.cond(YES, lambda: q * TWO, lambda: q),
    "switch": lambda q: lax.switch(jnp.int32(1), [lambda: q, lambda: -q]),
    "scan": lambda q: lax.scan(lambda c, _: (c * TWO, c), q, None, length=2),
    "slices": lambda q: lax.scan(lambda c, x: (c + x, x), q[0], q),
    "while": lambda q: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, -s[1]), (0, q))[1],
    "map": lambda q: lax.map(lambda x: x * TWO, q),
    "jit": lambda q: jax.jit(lambda q: q * TWO)(q),
    "checkpoint": lambda q: jax.checkpoint(lambda q: q * TWO)(q),
    "relu": jax.nn.relu,
    "vmap": lambda q: jax.vmap(lambda x: x * TWO)(q),
    "index": lambda q: (q[0], q[1:], q[::-1], q[jnp.int32(2)], q.reshape(1, 3)),
    "stack": lambda q: jnp.stack([q, q]),
    "where one is chosen": lambda q: jnp.where(YES, q, -q),
    "sum": lambda q: jnp.sum(q),
    "placement": lambda q: jax.device_put(lax.stop_gradient(q)),
}


@pytest.mark.parametrize("name", KEEPS)
def test_a_unit_goes_through(name: str) -> None:
    got = jax.tree.leaves(use(KEEPS[name], UNITS)(METRES), is_leaf=tq.is_implicit)
    want = jax.tree.leaves(KEEPS[name](METRES.x))
    assert [(type(each), each.unit) for each in got] == [(Quantity, "m")] * len(want)
    assert_same([each.x for each in got], want)


MESH = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
OUT = jax.ShapeDtypeStruct((3,), jnp.float32)


@jax.custom_vjp
def squared(q: Any) -> Any:
    return jnp.sin(q)


squared.defvjp(lambda q: (jnp.sin(q), q), lambda q, ct: (ct * q,))

DROPS: dict[str, tuple[Any, str]] = {
    "branches of two units": (lambda q: lax.cond(YES, lambda: q, lambda: q * q), "cond"),
    "a dense branch": (lambda q: lax.cond(YES, lambda: q, lambda: jnp.ones(3)), "cond"),
    "a carry that changes its unit": (
        lambda q: lax.scan(lambda c, _: (c * c, None), q, None, length=2),
        "scan",
    ),
    "a while loop that changes it": (
        lambda q: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * s[1]), (0, q)),
        "while",
    ),
    "a carry that begins dense": (
        lambda q: lax.scan(lambda c, _: (q, None), jnp.ones(3), None, length=2),
        "scan",
    ),
    "units that do not add": (lambda q: q + q * q, "add"),
    "no handler": (lambda q: jnp.sin(q), "sin"),
    "in a jitted function": (lambda q: jax.jit(jnp.sin)(q), "sin"),
    "in a checkpoint": (lambda q: jax.checkpoint(jnp.sin)(q), "sin"),
    "in a custom_jvp": (lambda q: jax.nn.silu(q), "logistic"),
    "in a custom_vjp": (lambda q: squared(q), "sin"),
    "in a body": (lambda q: lax.scan(lambda c, x: (c, jnp.sin(x)), 0, q), "sin"),
    "in a derivative": (lambda q: jax.grad(lambda q: jnp.sum(jnp.sin(q)))(q), "sin"),
    "a choice of entries": (
        lambda q: jnp.where(jnp.array([True, False, True]), q, -q),
        "select_n",
    ),
    "a reduction with a function": (
        lambda q: lax.reduce(q, jnp.float32(1), lambda a, b: a * b + 0.0, (0,)),
        "reduce",
    ),
    "sort": (lambda q: jnp.sort(q), "sort"),
    "places filled in": (lambda q: jnp.take(q, jnp.array([0, 5]), axis=0), "gather"),
    "pure_callback": (lambda q: jax.pure_callback(np.sin, OUT, q), "pure_callback"),
    "io_callback": (lambda q: io_callback(np.sin, OUT, q), "io_callback"),
    "debug.print": (lambda q: jax.debug.print("{}", q), "debug"),
    "a ref": (lambda q: jax.new_ref(q), "new_ref"),
    "what a ref holds": (lambda q: jax.new_ref(jnp.ones(3)).__setitem__(..., q), "swap"),
    "pallas_call": (
        lambda q: pallas.pallas_call(lambda i, o: None, out_shape=OUT, interpret=True)(q),
        "pallas",
    ),
    "custom_vmap": (lambda q: sequential_vmap(jnp.sin)(q), "sin"),
    "the result of a custom_vmap": (lambda q: sequential_vmap(lambda q: -q)(q), "custom_vmap"),
    "linear_call": (
        lambda q: jax.custom_derivatives.linear_call(
            lambda r, x: x * r, lambda r, ct: ct * r, TWO, q
        ),
        "linear_call",
    ),
    "a linear solve": (
        lambda q: lax.custom_linear_solve(lambda v: v * TWO, q, lambda _, b: b / TWO),
        "custom_linear_solve",
    ),
    "numpy": (lambda q: np.asarray(q * TWO), "numpy.asarray"),
    "python": (lambda q: float(q[0]), "float"),
}


@pytest.mark.parametrize("policy", [None, "allow"])
@pytest.mark.parametrize("name", DROPS)
def test_a_unit_is_never_dropped(name: str, policy: Any) -> None:
    f, primitive = DROPS[name]
    run = use(f, UNITS)
    if policy is not None:
        run = tq.materialization(policy)(run)
    with pytest.raises(tq.MaterializationError, match=f"(?s)Quantity.*{primitive}") as caught:
        run(METRES)
    assert f" at {__file__}:" in str(caught.value).splitlines()[0]
    assert_same(jax.jit(jnp.sin)(jnp.ones(2)), jnp.sin(jnp.ones(2)))


INNER = {
    "branches": DROPS["a dense branch"][0],
    "loop": lambda q: lax.fori_loop(0, 2, lambda i, c: jnp.sin(c), q),
    "checkpoint": DROPS["in a checkpoint"][0],
    "jit": DROPS["in a jitted function"][0],
    "jit in a loop": lambda q: lax.fori_loop(0, 2, lambda i, c: jax.jit(jnp.sin)(c), q),
    "a function of jax": lambda q: jnp.clip(q, 0.0, 1.0),
}


@pytest.mark.parametrize("forbid", ["class", "block"])
@pytest.mark.parametrize("name", INNER)
def test_what_is_forbidden_in_an_inner_function_names_the_line_and_the_argument(
    name: str, forbid: str
) -> None:
    class Plain(Quantity, materialization="error" if forbid == "class" else "allow"):
        def materialize(self) -> Any:
            return self.x

    f = INNER[name]
    line = f.__code__.co_firstlineno
    run = use(f, UNITS)
    if forbid == "block":
        run = tq.materialization("error")(run)
    with pytest.raises(tq.MaterializationError) as caught:
        run(Plain(jnp.arange(3.0)))
    first = str(caught.value).splitlines()[0]
    assert f" at {__file__}:{line}" in first
    assert "the argument q" in first


def test_a_unit_that_is_split_over_devices_stays() -> None:
    four = Quantity(jnp.arange(4.0))
    f = jax.shard_map(
        lambda q: q * TWO, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i")
    )
    got = use(f, UNITS)(four)
    assert (type(got), got.unit) == (Quantity, "m")
    assert_same(got.x, four.x * 2)


# --- in drafts of what runs ----------------------------------------------------------------------


class Nothing(tq.ImplicitArray, materialization="allow"):
    """Zeros, which become dense in a loop that puts something in their place."""

    def materialize(self) -> jax.Array:
        return jnp.zeros(self.shape, self.dtype)


def offset(q: Quantity, s: Float[jax.Array, "..."], /) -> Quantity:
    return Quantity(q.x + s, q.unit)


def failing(q: Float[jax.Array, "..."], z: Nothing, /, **params: Any) -> Any:
    raise ZeroDivisionError


NOTHING = Nothing(shape=(3,), dtype=jnp.float32)
DRAFTS = tq.HandlerTable("drafts", UNITS, ops.add.to(offset), ops.mul.to(failing))


def filled(z: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(z, jnp.ones((1,)), (i,))


MISSING: dict[str, Any] = {
    "scan": lambda q, z: lax.scan(lambda c, _: (jnp.sin(c), None), q, None, length=2),
    "while": lambda q, z: lax.fori_loop(0, 2, lambda _, c: jnp.sin(c), q),
    "nested": lambda q, z: lax.fori_loop(
        0, 2, lambda _, c: lax.fori_loop(0, 2, lambda _, d: jnp.sin(d), c), q
    ),
    "jit": lambda q, z: lax.fori_loop(0, 2, lambda _, c: jax.jit(jnp.sin)(c), q),
    "cond": lambda q, z: lax.fori_loop(
        0, 2, lambda i, c: lax.cond(i > 0, lambda: jnp.sin(c), lambda: c), q
    ),
    "before what fails": lambda q, z: jax.jit(lambda q: jnp.sin(q) * z)(q),
    "beside what becomes dense": lambda q, z: lax.fori_loop(
        0, 2, lambda i, s: (jnp.sin(s[0]) + s[1], filled(s[1], i)), (q, z)
    ),
    "of an inner array": lambda q, z: lax.fori_loop(
        0, 2, lambda i, s: (jnp.sin(s[0]), filled(s[1], i)), (q, z)
    ),
}


@pytest.mark.parametrize("policy", [None, "error"])
@pytest.mark.parametrize("name", MISSING)
def test_the_handler_that_a_body_misses_is_named(name: str, policy: Any) -> None:
    run = use(MISSING[name], DRAFTS)
    if policy is not None:
        run = tq.materialization(policy, Quantity)(run)
    with pytest.raises(tq.MaterializationError, match=r"(?s)Quantity.* for sin.*ops\.sin\.to"):
        run(METRES, NOTHING)


def test_what_a_draft_would_have_dropped_is_not_refused_if_it_does_not_run() -> None:
    # In a first draft z is Nothing, which no handler adds to q; in what runs it is dense.
    def f(q: Any, z: Any) -> Any:
        def body(carry: Any, i: Any) -> Any:
            q, z = carry
            return (q + z, filled(z, i)), METRES.x[0] * (q + z)

        return lax.scan(body, (q, z), jnp.arange(3))

    (q, z), ys = use(f, DRAFTS)(METRES, NOTHING)
    (want_q, want_z), want_ys = f(METRES.x, jnp.zeros(3))
    assert (type(q), q.unit, type(ys), ys.unit) == (Quantity, "m", Quantity, "m")
    assert_same((q.x, z, ys.x), (want_q, want_z, want_ys))


def reports_metres(x: Any, q: Any) -> Any:
    """A number whose derivative by `x`, its rule says, has the unit of `q`."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sum(x)

    f.defvjp(lambda x: (jnp.sum(x), q), lambda r, ct: (q * ct,))
    return f(x)


@pytest.mark.parametrize("x", [jnp.ones(3), Plain(jnp.ones(3))], ids=["dense", "implicit"])
def test_a_cotangent_s_unit_is_not_dropped_where_the_rule_ends(x: Any) -> None:
    run = use(reports_metres, DRAFTS)
    with pytest.raises(tq.MaterializationError, match=r"(?s)Quantity.*custom_vjp_call.*cotangents"):
        jax.grad(run)(x, METRES)


# --- inside another array -----------------------------------------------------------------------


class Twice(tq.ImplicitArray, materialization="allow"):
    """Two times what may have a unit; it may become dense itself, when that has none."""

    x: Float[tq.ArrayValue, ""]

    def compute_shape(self) -> tuple[int, ...]:
        return ()

    def compute_dtype(self) -> Any:
        return self.x.dtype

    def materialize(self) -> Any:
        return self.x + self.x


WITHIN = tq.HandlerTable("within", ops.add.to(plus), ops.neg.to(negate))


def replaced(x: Any) -> Any:
    return jnp.float32(1.0)


def with_rule(f: Any) -> Any:
    """`f` of one array and another, with a rule that would need both to be dense."""
    ruled = jax.custom_jvp(f)
    ruled.defjvp(lambda primals, tangents: (f(*primals), tangents[1]))
    return ruled


DROPPED: dict[str, Any] = {
    "branches": lambda x: lax.cond(jnp.bool_(True), lambda x: x, replaced, x),
    "scan": lambda x: lax.scan(lambda c, _: (replaced(c), None), x, None, length=2)[0],
    "loop": lambda x: lax.fori_loop(0, jnp.int32(2), lambda _, c: replaced(c), x),
    "primitive": jnp.sin,
    "primitive in jit": jax.jit(jnp.sin),
    "numpy": np.asarray,
    "float": float,
}


@pytest.mark.parametrize("drop", DROPPED.values(), ids=DROPPED.keys())
def test_an_array_inside_another_is_refused_too(drop: Any) -> None:
    f: Any = tq.use_implicit_args(drop, handlers=WITHIN)
    with pytest.raises(tq.MaterializationError, match="Quantity"):
        f(Twice(Quantity(jnp.float32(3.0))))


def test_a_stack_of_arrays_inside_others_is_refused_too() -> None:
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), Twice(Quantity(jnp.float32(3.0))))
    f: Any = tq.use_implicit_args(jnp.sin, handlers=WITHIN)
    with pytest.raises(tq.MaterializationError, match="Quantity"):
        f(stack)


def test_an_array_inside_another_goes_by_handlers_through_a_custom_rule() -> None:
    f: Any = tq.use_implicit_args(with_rule(lambda x, y: -x), handlers=WITHIN)
    result = f(Twice(Quantity(jnp.float32(3.0))), jnp.float32(1.0))
    assert (type(result), result.unit) == (Quantity, "m")
    assert_same(result.x, jnp.float32(-6.0))
