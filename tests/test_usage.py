"""Programs as users write them, each compared with the same program on dense arrays."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, export, lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import typedqax as tq
from tests.third_party.kit import agrees, implicit, int8, lora, numbers, same, zeros
from typedqax.arrays import Int8Matrix, LoraMatrix, Zeros

pytestmark = [pytest.mark.lenient_promotion, pytest.mark.without_leak_checks]

X = numbers(9, 6, 4)


def layer_parameters() -> dict[str, Any]:
    return {"w": lora(1, 4, 8), "b": zeros(8)}


def layer(params: Any, x: Array = X) -> Array:
    return jnp.tanh(x @ params["w"] + params["b"])


def loss(params: Any, x: Array = X) -> Array:
    return jnp.mean(layer(params, x) ** 2)


# --- inference -----------------------------------------------------------------------------------

WIDTH, VOCABULARY, LENGTH = 8, 11, 6


def decoder() -> dict[str, Any]:
    matrices = {name: int8(seed, WIDTH, WIDTH) for seed, name in enumerate(["q", "k", "v", "o"])}
    embedding = LoraMatrix(
        numbers(5, VOCABULARY, WIDTH), numbers(6, VOCABULARY, 2), numbers(7, 8, 2)
    )
    return {**matrices, "embedding": embedding}


def decode(params: Any, token: Array, caches: Any, place: Array) -> Any:
    """One step of a decoder with one head, one layer and a cache of keys and values."""
    x = params["embedding"][token]
    keys, values = (
        lax.dynamic_update_slice(cache, (x @ params[name])[:, None], (0, place, 0))
        for name, cache in zip("kv", caches, strict=True)
    )
    scores = jnp.einsum("bd,btd->bt", x @ params["q"], keys)
    weights = jax.nn.softmax(jnp.where(jnp.arange(LENGTH) <= place, scores, -jnp.inf))
    x = x + jnp.einsum("bt,btd->bd", weights, values) @ params["o"]
    return x @ params["embedding"].T, (keys, values)


def test_a_decoder_of_bytes_generates_in_a_while_loop() -> None:
    def generate(params: Any, token: Array) -> Array:
        def step(carry: Any) -> Any:
            place, token, caches, out = carry
            logits, caches = decode(params, token, caches, place)
            token = jnp.argmax(logits, -1).astype(jnp.int32)
            return (
                place + 1,
                token,
                caches,
                lax.dynamic_update_slice(out, token[:, None], (0, place)),
            )

        caches = (jnp.zeros((2, LENGTH, WIDTH)),) * 2
        start = (jnp.int32(0), token, caches, jnp.zeros((2, LENGTH), jnp.int32))
        return lax.while_loop(lambda carry: carry[0] < LENGTH, step, start)[3]

    agrees(generate, decoder(), jnp.array([1, 2], jnp.int32), grad=False)


def test_a_decoder_of_bytes_generates_in_a_scan_whose_cache_begins_as_zeros() -> None:
    def generate(params: Any, token: Array, caches: Any) -> Any:
        def step(carry: Any, place: Array) -> Any:
            token, caches = carry
            logits, caches = decode(params, token, caches, place)
            return (jnp.argmax(logits, -1).astype(jnp.int32), caches), logits

        return lax.scan(step, (token, caches), jnp.arange(LENGTH))[1]

    caches = (zeros(2, LENGTH, WIDTH), zeros(2, LENGTH, WIDTH))
    agrees(
        generate,
        decoder(),
        jnp.array([1, 2], jnp.int32),
        caches,
        grad=False,
        dense={"Zeros": {"scan"}},  # the next cache is no longer zeros
    )


def test_an_exported_function_is_called_with_implicit_arrays() -> None:
    params = {**layer_parameters(), "q": int8(4, 8, 3)}
    served = jax.jit(implicit(lambda params, x: layer(params, x) @ params["q"]))
    any_batch = jax.ShapeDtypeStruct(export.symbolic_shape("batch, 4"), jnp.float32)
    exported = export.export(served)(params, any_batch)
    dense = tq.materialize(params)
    same(exported.call(params, X), layer(dense) @ dense["q"])


def test_a_function_is_compiled_ahead_for_implicit_arguments() -> None:
    params = layer_parameters()
    abstract = jax.eval_shape(lambda: params)
    compiled = jax.jit(implicit(loss)).lower(abstract).compile()
    same(compiled(params), loss(tq.materialize(params)))


# --- adapters ------------------------------------------------------------------------------------


def test_adapters_of_an_ensemble_share_their_base() -> None:
    stack = LoraMatrix(numbers(1, 4, 8), numbers(2, 5, 4, 2), numbers(3, 5, 8, 2), alpha=0.5)
    axes = LoraMatrix(None, 0, 0, alpha=0.5)  # type: ignore[arg-type]  # a tree of axes
    with tq.materialization("error"):
        got = jax.jit(jax.vmap(implicit(lambda w: X @ w), in_axes=(axes,)))(stack)
    each = [X @ (stack.w + 0.5 * a @ b.T) for a, b in zip(stack.a, stack.b, strict=True)]
    same(got, jnp.stack(each))


def test_each_example_has_a_gradient_of_its_own() -> None:
    params = layer_parameters()

    def gradients(loss: Callable[..., Array]) -> Any:
        return jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, X)

    got = gradients(implicit(loss))
    expected = gradients(lambda params, x: loss(tq.materialize(params), x))
    same(jax.tree.leaves(got), jax.tree.leaves(expected))
    agrees(lambda p: jax.vmap(jax.grad(loss), in_axes=(None, 0))(p, X), params, grad=False)


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(lambda *shape: int8(1, *shape), id="bytes"),
        pytest.param(lambda *shape: lora(1, *shape), id="an adapter"),
        pytest.param(lambda *shape: zeros(*shape), id="zeros"),
    ],
)
def test_an_adapter_stands_around_a_base_that_is_implicit(base: Any) -> None:
    w = LoraMatrix(base(4, 4), numbers(2, 4, 2), numbers(3, 4, 2))
    agrees(lambda w: lax.scan(lambda x, _: (jnp.tanh(x @ w @ w.T), None), X, None, 2)[0].sum(), w)
    agrees(lambda w: jnp.sum(jax.checkpoint(lambda x: jnp.tanh(x @ w))(X) ** 2), w)


def test_a_merged_matrix_starts_a_new_adapter() -> None:
    old = lora(1, 4, 8)
    new = LoraMatrix.around(tq.materialize(old), rank=3, key=jax.random.key(0))
    same(tq.materialize(new), old.w + 0.5 * old.a @ old.b.T)


# --- training ------------------------------------------------------------------------------------


def test_gradients_are_accumulated_in_a_scan() -> None:
    batches, params = X.reshape(3, 2, 4), layer_parameters()

    def accumulated(loss: Callable[..., Array], params: Any) -> Any:
        def add(total: Any, x: Array) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(params, x)), None

        return lax.scan(add, jax.tree.map(jnp.zeros_like, params), batches)[0]

    with tq.materialization("error"):
        got = jax.jit(functools.partial(accumulated, implicit(loss)))(params)
    same(got, accumulated(lambda params, x: loss(tq.materialize(params), x), params))


def test_an_inner_loop_of_steps_is_differentiated() -> None:
    def adapted(w: Array) -> Array:
        def inner(w: Array) -> Array:
            return jnp.mean(jnp.tanh(X @ w) ** 2)

        return inner(lax.fori_loop(0, 2, lambda _, w: w - 0.1 * jax.grad(inner)(w), w))

    agrees(adapted, lora(1, 4, 3))


def test_a_training_step_donates_the_leaves_of_its_parameters() -> None:
    params, kept = layer_parameters(), layer_parameters()

    def step(loss: Callable[..., Array], params: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

    got = jax.jit(functools.partial(step, implicit(loss)), donate_argnums=0)(params)
    assert params["w"].w.is_deleted()
    assert params["w"].a.is_deleted()
    same(got, step(lambda params: loss(tq.materialize(params)), kept))


def test_parameters_that_are_cast_at_once_compute_in_their_new_dtype() -> None:
    params = {**layer_parameters(), "q": int8(4, 8, 3)}

    def half(leaf: Array) -> Array:
        return leaf.astype(jnp.bfloat16) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    cast = jax.tree.map(half, params)
    got = implicit(lambda params, x: layer(params, x) @ params["q"])(cast, half(X))
    dense = tq.materialize(cast)
    assert {w.dtype for w in jax.tree.leaves(dense)} == {jnp.dtype(jnp.bfloat16)}
    same(got, layer(dense, half(X)) @ dense["q"], tolerance=2e-2)


# --- many devices --------------------------------------------------------------------------------

MESH = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
WHOLE, SPLIT = NamedSharding(MESH, PartitionSpec()), NamedSharding(MESH, PartitionSpec("data"))


def test_sharded_batches_meet_replicated_parameters() -> None:
    params = jax.device_put({**layer_parameters(), "q": int8(4, 8, 3)}, WHOLE)
    x = jax.device_put(numbers(2, 8, 4), SPLIT)
    agrees(lambda params, x: jnp.mean((layer(params, x) @ params["q"]) ** 2), params, x)
    compiled = jax.jit(implicit(layer), in_shardings=(WHOLE, SPLIT))
    assert compiled(params, x).sharding.is_equivalent_to(SPLIT, 2)


def test_each_device_computes_its_shard() -> None:
    @functools.partial(
        jax.shard_map,
        mesh=MESH,
        in_specs=(PartitionSpec(), PartitionSpec("data")),
        out_specs=PartitionSpec(),
    )
    def mean(params: Any, x: Array) -> Any:
        return lax.pmean(jnp.mean((layer(params, x) @ params["q"]) ** 2), "data")

    params = {**layer_parameters(), "q": int8(4, 8, 3)}
    agrees(mean, params, numbers(2, 8, 4))


# --- as data -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "passed",
    [
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda tree: pickle.loads(pickle.dumps(tree)), id="pickle"),
        pytest.param(jax.device_get, id="device_get"),
        pytest.param(lambda tree: jax.tree.map(lambda leaf: leaf, tree), id="tree.map"),
        pytest.param(lambda tree: jax.jit(lambda tree: tree)(tree), id="jit"),
    ],
)
def test_parameters_are_the_same_after_a_journey(passed: Callable[[Any], Any]) -> None:
    params = {**layer_parameters(), "q": int8(4, 8, 3)}
    back = passed(params)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    kinds = {name: type(value) for name, value in back.items()}
    assert kinds == {"w": LoraMatrix, "b": Zeros, "q": Int8Matrix}
    same(implicit(layer)(back), layer(tq.materialize(params)))
