"""optax: training loops whose parameters are implicit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
from jax import Array

import typedqax as tq
from tests.third_party.kit import agrees, implicit, int8, lora, numbers, same, zeros
from typedqax.arrays import LoraMatrix

X, Y = numbers(9, 6, 4), numbers(10, 6, 5)


def parameters() -> dict[str, Any]:
    return {"w1": lora(1, 4, 8), "b1": zeros(8), "w2": lora(5, 8, 5), "b2": numbers(7, 5)}


def loss(params: dict[str, Array]) -> Array:
    hidden = jnp.tanh(X @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] + params["b2"] - Y) ** 2)


def trained(
    optimizer: optax.GradientTransformation, loss: Callable[[Any], Any], params: Any, steps: int = 4
) -> Any:
    """The parameters after some steps in a scan, and the losses on the way."""

    def step(carry: Any, _: None) -> Any:
        params, state = carry
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), value

    (params, _), losses = jax.lax.scan(step, (params, optimizer.init(params)), None, length=steps)
    return params, losses


@pytest.mark.parametrize(
    "optimizer",
    [
        pytest.param(optax.adamw(1e-2), id="adamw"),
        pytest.param(
            optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9)), id="sgd"
        ),
        pytest.param(
            optax.MultiSteps(optax.adam(1e-2), every_k_schedule=2), id="gradient_accumulation"
        ),
        pytest.param(
            optax.inject_hyperparams(optax.adam)(optax.cosine_decay_schedule(1e-2, 10)),
            id="schedule",
        ),
    ],
)
def test_fields_are_trained_as_a_model_of_fields_is(
    optimizer: optax.GradientTransformation,
) -> None:
    def run(loss: Callable[[Any], Any]) -> Any:
        return jax.jit(lambda params: trained(optimizer, loss, params))(parameters())

    with tq.materialization("error"):  # nothing became dense
        params, losses = run(implicit(loss))
    expected, losses_expected = run(lambda params: loss(tq.materialize(params)))
    same(losses, losses_expected)
    same(params, expected)
    assert isinstance(params["w1"], LoraMatrix)


def test_a_loop_inside_the_transform_trains_the_arrays_that_are_stood_for() -> None:
    def run(params: Any) -> Any:
        return trained(optax.adam(1e-2), loss, params, steps=3)

    # The bias is moved from zero, so that a carry of zeros cannot stay one; a LoRA matrix takes
    # a dense update into its base.
    agrees(run, parameters(), grad=False, dense={"Zeros": {"scan"}}, tolerance=1e-4)


def test_multi_transform_freezes_the_base_and_trains_the_adapters() -> None:
    def label(path: tuple[Any, ...], leaf: Any) -> str:
        return "frozen" if getattr(path[-1], "name", "") == "w" else "trained"

    params = parameters()
    optimizer = optax.multi_transform(
        {"frozen": optax.set_to_zero(), "trained": optax.adam(1e-2)},
        jax.tree_util.tree_map_with_path(label, params),
    )
    with tq.materialization("error"):
        after, losses = trained(optimizer, implicit(loss), params)
    expected, _ = trained(optimizer, lambda params: loss(tq.materialize(params)), params)
    same(after, expected)
    assert losses[-1] < losses[0]
    assert (after["w1"].w == params["w1"].w).all()
    assert (after["w1"].a != params["w1"].a).all()


def test_a_frozen_int8_matrix_stands_beside_what_is_trained() -> None:
    frozen = {"w1": int8(1, 4, 8)}
    rest = {name: value for name, value in parameters().items() if name != "w1"}
    with tq.materialization("error"):
        after, losses = trained(optax.adam(1e-2), lambda p: implicit(loss)({**p, **frozen}), rest)
    dense = tq.materialize(frozen)
    expected = trained(optax.adam(1e-2), lambda p: loss({**tq.materialize(p), **dense}), rest)
    same((after, losses), expected)


def test_an_average_of_parameters_is_one_of_what_they_stand_for() -> None:
    def run(params: Any) -> Any:
        average = optax.ema(0.9)
        smooth, _ = average.update(params, average.init(params))
        return smooth, optax.incremental_update(smooth, params, 0.1), optax.tree.norm(params)

    agrees(run, parameters(), grad=False, dense={"LoraMatrix": {"integer_pow", "square"}})


def test_a_line_search_calls_the_function_inside_its_loop() -> None:
    optimizer = optax.lbfgs(linesearch=optax.scale_by_backtracking_linesearch(5))

    def run(loss: Callable[[Any], Any], params: Any) -> Any:
        state = optimizer.init(params)
        value, gradient = jax.value_and_grad(loss)(params)
        updates, _ = optimizer.update(
            gradient, state, params, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(params, updates), value

    with tq.materialization("error"):
        got = jax.jit(lambda p: run(implicit(loss), p))(parameters())
    expected = jax.jit(lambda p: run(lambda p: loss(tq.materialize(p)), p))(parameters())
    same(got, expected, tolerance=1e-4)
