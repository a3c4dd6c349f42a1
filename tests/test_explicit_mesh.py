"""Meshes with explicit axes, where types say how arrays are split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import typedqax as tq
from tests.implicit_kinds import Plain
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

pytestmark = pytest.mark.without_leak_checks  # JAX reshards with functions that it remembers

P = PartitionSpec
MESH = jax.make_mesh((2, 2), ("d", "t"), axis_types=(AxisType.Explicit,) * 2)


@pytest.fixture(autouse=True)
def mesh() -> Iterator[None]:
    with jax.set_mesh(MESH):
        yield


def placed(array: Any, *split: str | None) -> Any:
    return jax.device_put(array, NamedSharding(MESH, P(*split)))


def ramp(*shape: int) -> Any:
    return jnp.sin(jnp.arange(float(jnp.prod(jnp.asarray(shape))))).reshape(shape)


KINDS: dict[str, tuple[Callable[[], Any], tq.HandlerTable | None]] = {
    "lora": (
        lambda: LoraMatrix(
            placed(ramp(4, 4), None, "t"), placed(ramp(4, 2)), placed(ramp(4, 2), "t", None)
        ),
        LORA,
    ),
    "int8": (lambda: Int8Matrix.quantize(placed(ramp(4, 4), None, "t"), axis=0), INT8),
    "zeros": (lambda: Zeros(shape=(4, 4), dtype=jnp.float32), ZEROS),
    "eye": (lambda: Eye(4), EYE),
    "no handlers": (lambda: Plain(placed(ramp(4, 4), None, "t")), None),
}
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda w, x: x @ w,
    "where": lambda w, x: jnp.where(x @ w > 0, x @ w, 1.0),
    "concatenate": lambda w, x: jnp.concatenate([x @ w, x @ w], 0),
    "transpose": lambda w, x: (x @ w).mT,
    "reshape": lambda w, x: (x @ w).reshape(8, 2, 2),
    "sum": lambda w, x: (x @ w).sum(0),
    "elementwise": lambda w, x: jnp.exp(x @ w),
    "gradient": lambda w, x: jax.grad(lambda x: jnp.sum(jnp.sin(x @ w)))(x),
    "gradient of the transposed": lambda w, x: jax.grad(lambda x: jnp.sum(jnp.sin(w.mT @ x.mT)))(x),
    "scan": lambda w, x: lax.scan(lambda c, _: (c, jnp.sum(c @ w, 0)), x, None, length=2)[1],
    "out_sharding": lambda w, x: jnp.dot(x, w, out_sharding=P("d", None)),
    "out_sharding, none": lambda w, x: jnp.dot(x, w, out_sharding=P()),
    "out_sharding, short": lambda w, x: jnp.dot(x, w, out_sharding=P("d")),
    "out_sharding, short and last": lambda w, x: jnp.dot(w.mT, x.mT, out_sharding=P("t")),
    "out_sharding, both": lambda w, x: jnp.dot(x, w, out_sharding=P("d", "t")),
    "out_sharding, last": lambda w, x: jnp.dot(w.mT, x.mT, out_sharding=P("t", "d")),
    "lookup": lambda w, x: w.at[jnp.array([0, 1])].get(out_sharding=P(None, "t")),
    "reshard": lambda w, x: jax.sharding.reshard(w, P("d", None)) * 2,
}


def assert_split_as_dense(
    f: Callable[[Any, Any], Any], w: Any, x: Any, table: tq.HandlerTable | None
) -> None:
    want = f(tq.materialize(w), x)
    for way in (f, jax.jit(f)):
        with tq.materialization("allow"):
            got = tq.materialize(tq.use_implicit_args(way, handlers=table)(w, x))
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert jnp.allclose(got, want, rtol=1e-5, atol=1e-6)
        assert jax.typeof(got).sharding.spec == jax.typeof(want).sharding.spec


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_split_as_those_of_dense_arrays(kind: str, name: str) -> None:
    make, table = KINDS[kind]
    f, w, x = PROGRAMS[name], make(), placed(ramp(8, 4), "d", None)
    assert_split_as_dense(f, w, x, table)


BESIDE: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda w, x: lax.scan(lambda c, _: (c @ w, None), x, None, length=2)[0],
    "fori_loop": lambda w, x: lax.fori_loop(0, 2, lambda _, c: c @ w, x),
    "where": lambda w, x: jnp.where(x > 0, x @ w, x),
    "concatenate": lambda w, x: jnp.concatenate([x @ w, x], 1),
    "cond": lambda w, x: lax.cond(jnp.sum(x) > 99, lambda x: x, lambda x: x @ w, x),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("kind", ["zeros", "eye"])
def test_what_is_made_of_nothing_is_split_as_what_stands_beside_it(kind: str, name: str) -> None:
    make, table = KINDS[kind]
    f, w, x = BESIDE[name], make(), placed(ramp(8, 4), "d", None)
    assert_split_as_dense(f, w, x, table)


STACKED: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda ws, x: jnp.sin(ws),
    "einsum": lambda ws, x: jnp.einsum("bm,lmn->lbn", x, ws),
    "vmap": lambda ws, x: jax.vmap(lambda w: x @ w)(ws),
    "scan": lambda ws, x: lax.scan(lambda c, w: (c, c @ w), x, ws)[1],
    "entry": lambda ws, x: x @ ws[1],
}


@pytest.mark.parametrize("name", STACKED)
@pytest.mark.parametrize("shared", [False, True], ids=["whole", "a shared base"])
def test_stacks_are_split_as_those_of_dense_arrays(shared: bool, name: str) -> None:
    w = placed(ramp(4, 4), None, "t") if shared else placed(ramp(2, 4, 4), None, None, "t")
    ws = LoraMatrix(w, placed(ramp(2, 4, 2)), placed(ramp(2, 4, 2), None, "t", None))
    f, x = STACKED[name], placed(ramp(8, 4), "d", None)
    want = f(tq.materialize(ws), x)
    for way in (f, jax.jit(f)):
        with tq.materialization("allow"):
            got = tq.materialize(tq.use_implicit_args(way, handlers=LORA)(ws, x))
        assert jnp.allclose(got, want, rtol=1e-5, atol=1e-5)
        assert jax.typeof(got).sharding.spec == jax.typeof(want).sharding.spec


class OfItsOwnShape(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def compute_shape(self) -> tuple[int, ...]:
        return self.x.shape

    def materialize(self) -> Any:
        return jnp.sin(self.x).reshape(self.shape).astype(self.dtype)

    def compute_dtype(self) -> Any:
        return self.x.dtype


def test_a_class_that_asks_for_its_own_shape_is_split_too() -> None:
    w = OfItsOwnShape(placed(ramp(4, 4), None, "t"))
    got = tq.use_implicit_args(jax.jit(lambda w: w * 2))(w)
    assert jax.typeof(got).sharding.spec == P(None, "t")


@pytest.mark.parametrize("name", ["product", "out_sharding, both", "out_sharding, none"])
def test_a_mask_is_split_as_its_values(name: str) -> None:
    value = placed(ramp(4, 4), None, "t")
    w, x = MaskedArray(value, value > 0), placed(ramp(8, 4), "d", None)
    f = PROGRAMS[name]
    want = f(value, x)
    for way in (f, jax.jit(f)):
        got = tq.use_implicit_args(way, handlers=MASKED)(w, x)
        split = jax.typeof(want).sharding.spec
        assert [jax.typeof(each).sharding.spec for each in (got.value, got.mask)] == [split] * 2


def test_one_that_is_closed_over_is_resharded_as_one_array() -> None:
    make, table = KINDS["lora"]
    w, x = make(), placed(ramp(8, 4), "d", None)

    def f(x: Any, w: Any) -> Any:
        return x @ jax.sharding.reshard(w, P(None, None))

    got = tq.use_implicit_args(lambda x: f(x, w), handlers=table)(x)
    want = f(x, tq.materialize(w))
    assert jnp.allclose(got, want, rtol=1e-5, atol=1e-5)
    assert jax.typeof(got).sharding.spec == jax.typeof(want).sharding.spec


def test_lora_multiplies_by_its_factors_wherever_it_is_split() -> None:
    make, table = KINDS["lora"]
    x = placed(ramp(8, 4), "d", None)
    with tq.materialization("error"):
        for name in ("product", "gradient", "gradient of the transposed", "lookup", "reshard"):
            tq.use_implicit_args(PROGRAMS[name], handlers=table)(make(), x)


def test_what_its_leaves_cannot_tell_becomes_dense_to_be_resharded() -> None:
    class Turned(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue

        def materialize(self) -> Any:
            return self.x.mT

    got = tq.use_implicit_args(lambda w: jax.sharding.reshard(w, P("d", None)))(Turned(ramp(4, 4)))
    assert not tq.is_implicit(got)
    assert jnp.allclose(got, ramp(4, 4).mT)
    assert jax.typeof(got).sharding.spec == P("d", None)
