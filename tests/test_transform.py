"""The transform: a function of implicit arrays gives what it gives of the arrays they stand for."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax._src.core import trace_state_clean
from jaxtyping import Float

import typedqax as tq
from tests.implicit_world import (
    CASES,
    TABLE,
    LoraMatrix,
    Plain,
    Scaled,
    Zeros,
    close,
    numbers,
    scale_scaled,
    transformed,
)
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

LEFT, RIGHT, SAME = numbers(20, 2, 3), numbers(21, 4, 2), numbers(22, 3, 4)

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def implicit(f: Callable[..., Any]) -> Callable[..., Any]:
    """The transform of `f`, with the handlers of the tests' own table."""
    return tq.use_implicit_args(f, handlers=TABLE)


# --- what it is given, and gives ------------------------------------------------------------------


def times_three(x: Array, *, plus: Array | float = 0.0) -> Array:
    """Three times it."""
    return 3.0 * x + plus


class Model:
    def __init__(self, w: Array) -> None:
        self.w = w

    def method(self, x: Array) -> Array:
        return x @ self.w

    @classmethod
    def of_class(cls, x: Array) -> tuple[type, Array]:
        return cls, 2.0 * x

    @staticmethod
    def static(x: Array) -> Array:
        return 4.0 * x

    def __call__(self, x: Array) -> Array:
        return 5.0 * x

    @tq.use_implicit_args
    def decorated(self, x: Array, *, plus: float = 1.0) -> Array:
        return 6.0 * x + plus

    @tq.use_implicit_args(handlers=TABLE)
    @classmethod
    def decorated_class(cls, x: Array) -> tuple[type, Array]:
        return cls, 7.0 * x

    @tq.use_implicit_args
    @staticmethod
    def decorated_static(x: Array) -> Array:
        return 8.0 * x


MODEL = Model(numbers(1, 4, 2))

CALLABLES: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "function": (times_three, lambda x: 3.0 * x),
    "lambda": (lambda x: 2.0 * x, lambda x: 2.0 * x),
    "bound method": (MODEL.method, lambda x: x @ MODEL.w),
    "static method": (Model.static, lambda x: 4.0 * x),
    "callable object": (MODEL, lambda x: 5.0 * x),
    "partial": (functools.partial(times_three, plus=1.0), lambda x: 3.0 * x + 1.0),
    "jnp function": (jnp.tanh, jnp.tanh),
    "jitted function": (jax.jit(times_three), lambda x: 3.0 * x),
    "jax.tree_util.Partial": (
        jax.tree_util.Partial(times_three, plus=2.0),
        lambda x: 3.0 * x + 2.0,
    ),
    "ufunc": (jnp.negative, lambda x: -x),
}


@pytest.mark.parametrize(("f", "meaning"), CALLABLES.values(), ids=CALLABLES.keys())
def test_any_callable_can_be_transformed(
    f: Callable[..., Any], meaning: Callable[[Array], Array]
) -> None:
    value, dense = CASES["lora"].both()
    close(tq.materialize(implicit(f)(value)), meaning(dense))


def test_a_decorated_method_takes_implicit_arrays() -> None:
    value, dense = CASES["scaled"].both()
    close(tq.materialize(MODEL.decorated(value)), 6.0 * dense + 1.0)
    close(tq.materialize(MODEL.decorated(value, plus=2.0)), 6.0 * dense + 2.0)
    close(tq.materialize(Model.decorated(MODEL, value)), 6.0 * dense + 1.0)


def test_a_decorated_classmethod_is_given_the_class() -> None:
    value, dense = CASES["scaled"].both()
    for owner in (Model, MODEL):
        cls, result = owner.decorated_class(value)
        assert cls is Model
        assert type(result) is Scaled
        close(tq.materialize(result), 7.0 * dense)


def test_a_decorated_staticmethod_is_given_no_instance() -> None:
    value, dense = CASES["scaled"].both()
    close(tq.materialize(Model.decorated_static(value)), 8.0 * dense)
    close(tq.materialize(MODEL.decorated_static(value)), 8.0 * dense)


def test_an_undecorated_classmethod_can_be_transformed() -> None:
    value, dense = CASES["scaled"].both()
    cls, result = implicit(Model.of_class)(value)
    assert cls is Model
    close(tq.materialize(result), 2.0 * dense)


def test_a_transformed_function_keeps_its_name_docs_and_signature() -> None:
    f = implicit(times_three)
    assert f.__name__ == "times_three"
    assert f.__doc__ == "Three times it."
    assert f.__module__ == __name__
    assert f.__wrapped__ is times_three  # type: ignore[attr-defined]  # of functools.wraps
    assert inspect.signature(f) == inspect.signature(times_three)


def test_a_transformed_function_can_be_pickled_and_copied() -> None:
    value, dense = CASES["plain"].both()
    for f in (
        pickle.loads(pickle.dumps(tq.use_implicit_args(times_three))),
        copy.copy(implicit(times_three)),
        copy.deepcopy(implicit(times_three)),
    ):
        close(tq.materialize(f(value)), 3.0 * dense)


@tq.use_implicit_args
def doubled(x: Array) -> Array:
    return 2.0 * x


def test_a_decorated_function_is_pickled_by_its_name_as_any_function() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_transforming_twice_is_transforming_once() -> None:
    value, dense = CASES["lora"].both()
    once, twice = implicit(jnp.transpose), implicit(implicit(jnp.transpose))
    assert type(once(value)) is type(twice(value)) is LoraMatrix
    close(tq.materialize(twice(value)), dense.T)


def test_what_is_not_callable_cannot_be_transformed() -> None:
    with pytest.raises(TypeError, match="use_implicit_args takes a function, not 3"):
        tq.use_implicit_args(3)  # type: ignore[call-overload]  # that is the mistake


def test_handlers_must_be_a_table() -> None:
    with pytest.raises(TypeError, match=r"HandlerTable\(name, rule, \.\.\.\)"):
        tq.use_implicit_args(times_three, handlers=[ops.neg.to(lambda x: x)])  # type: ignore[call-overload]  # that is the mistake


def test_pytrees_are_put_together_inside_where_they_may_compute() -> None:
    class WithTwice:
        def __init__(self, x: Any) -> None:
            self.x, self.twice = x, 2.0 * x

    jax.tree_util.register_pytree_node(
        WithTwice, lambda node: ((node.x,), None), lambda _, leaves: WithTwice(*leaves)
    )
    node = WithTwice(SAME)
    node.x = Plain(SAME)
    close(transformed(lambda node: node.twice + 0.0)(node), 2.0 * SAME)


def test_arguments_and_results_are_any_pytrees() -> None:
    value, dense = CASES["lora"].both()

    def f(tree: Any, *rest: Any, key: Any) -> Any:
        (w, [_]), flag = tree["layer"], tree["flag"]
        return {"out": (w * 2.0, None), "rest": [r + key["z"] for r in rest], "flag": flag}

    z = numbers(3, 3, 4)
    tree: Callable[..., Any] = lambda w: {"layer": (w, [LEFT]), "flag": "yes"}
    got = implicit(f)(tree(value), value, SAME, key={"z": z})
    assert got["flag"] == "yes"
    assert type(got["out"][0]) is LoraMatrix
    close(
        tq.materialize({k: got[k] for k in ("out", "rest")}),
        {"out": (dense * 2.0, None), "rest": [dense + z, SAME + z]},
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    w: Any
    scale: float = dataclasses.field(metadata={"static": True}, default=2.0)


def test_implicit_arrays_inside_other_pytrees_are_arguments_and_results() -> None:
    value, dense = CASES["lora"].both()
    got = implicit(lambda p: Params(p.w * p.scale))(Params(value))
    assert type(got.w) is LoraMatrix
    close(tq.materialize(got), Params(dense * 2.0))


def test_an_argument_returned_untouched_is_the_same_object() -> None:
    value, _ = CASES["lora"].both()
    assert implicit(lambda w: w)(value) is value


def test_a_result_keeps_its_class_where_a_handler_gives_it() -> None:
    value, dense = CASES["lora"].both()
    result = implicit(lambda w: (w.T * 3.0, w / 2.0))(value)
    assert [type(r) for r in result] == [LoraMatrix, LoraMatrix]
    close(tq.materialize(result), (dense.T * 3.0, dense / 2.0))


# --- nothing implicit -----------------------------------------------------------------------------


def test_without_implicit_arguments_the_function_is_called_as_it_is() -> None:
    seen = []

    def f(x: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((x, args, kwargs))
        return x

    marker, mask = object(), np.array([True, False])
    assert tq.use_implicit_args(f)(marker, mask, None, name="s") is marker
    assert seen[0][0] is marker
    assert seen[0][1][0] is mask
    assert seen[0][2] == {"name": "s"}


def test_without_implicit_arguments_nothing_is_traced() -> None:
    f = transformed(lambda x, mask: jnp.compress(mask, x) if float(x[0]) > 0 else x)
    close(f(jnp.arange(1.0, 4.0), np.array([True, False, True])), jnp.array([1.0, 3.0]))
    plain = str(jax.make_jaxpr(times_three)(SAME))
    assert str(jax.make_jaxpr(tq.use_implicit_args(times_three))(SAME)) == plain


def test_zero_arguments_are_fine() -> None:
    assert transformed(lambda: 3)() == 3


def test_python_can_look_at_dense_values_beside_implicit_ones() -> None:
    value, dense = CASES["lora"].both()

    def f(w: Any, x: Array, mask: Any) -> Any:
        assert not isinstance(x, jax.core.Tracer)
        x = jnp.compress(mask, x, axis=0) if x.sum() != 0.0 else x
        return x @ w

    mask = np.array([True, False])
    close(implicit(f)(value, LEFT, mask), LEFT[:1] @ dense)


def test_other_arguments_pass_through_unchanged() -> None:
    value, _ = CASES["lora"].both()
    marker = object()
    got = implicit(lambda w, *rest, **named: (rest, named))(value, marker, "s", None, a=marker)
    assert got == ((marker, "s", None), {"a": marker})


# --- the law, over functions ----------------------------------------------------------------------


def half_square(x: Array) -> Array:
    """x², but its own rule says that its derivative is 5."""
    return x * x


wrong_jvp = jax.custom_jvp(half_square)
wrong_jvp.defjvp(lambda primals, tangents: (half_square(*primals), 5.0 * tangents[0]))

wrong_vjp = jax.custom_vjp(half_square)
wrong_vjp.defvjp(lambda x: (half_square(x), x), lambda x, ct: (7.0 * ct + 0.0 * x,))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def wrong_jvp_two(x: Array, power: int, y: Array) -> tuple[Array, Array]:
    return x**power, x * y


@wrong_jvp_two.defjvp
def wrong_jvp_two_rule(power: int, primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return wrong_jvp_two(x, power, y), (2.0 * dx, 11.0 * dx + 13.0 * dy)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def wrong_vjp_two(power: int, x: Array, y: Array) -> tuple[Array, Array]:
    return x**power, x * y


def wrong_vjp_two_fwd(power: int, x: Array, y: Array) -> Any:
    return (x**power, x * y), (x, jnp.cos(y))


def wrong_vjp_two_bwd(power: int, residuals: Any, cts: Any) -> Any:
    x, cos_y = residuals
    first, second = cts
    return power * first + 17.0 * second * cos_y, 19.0 * second * x


wrong_vjp_two.defvjp(wrong_vjp_two_fwd, wrong_vjp_two_bwd)

CUSTOM: dict[str, Callable[[Array], Any]] = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "softplus": jax.nn.softplus,
    "silu": jax.nn.silu,
    "logaddexp": lambda w: jnp.logaddexp(w, SAME),
    "logaddexp of itself": lambda w: jnp.logaddexp(SAME, w * w),
    "jvp not the true one": wrong_jvp,
    "vjp not the true one": wrong_vjp,
    "jvp, two results": lambda w: wrong_jvp_two(w, 2, SAME),
    "jvp, second operand": lambda w: wrong_jvp_two(SAME, 3, w),
    "vjp, two results": lambda w: wrong_vjp_two(2, w, SAME),
    "vjp, second operand": lambda w: wrong_vjp_two(3, SAME, w),
    "vjp of both": lambda w: wrong_vjp_two(2, w, w),
    "jvp in checkpoint": jax.checkpoint(wrong_jvp),
    "vjp in jit": jax.jit(wrong_vjp),
    "jvp in jit": jax.jit(lambda w: wrong_jvp(w * 2.0)),
    "vjp under vmap": jax.vmap(wrong_vjp),
    "jvp under vmap": jax.vmap(wrong_jvp),
}

FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "x @ w": lambda w: LEFT @ w,
    "w @ x": lambda w: w @ RIGHT,
    "x @ w.T": lambda w: RIGHT.T @ w.T,
    "w @ w.T": lambda w: w @ w.T,
    "x * w + w": lambda w: SAME * w + w,
    "w / 2 - 1": lambda w: w / 2.0 - 1.0,
    "-w": lambda w: -w,
    "w ** 2": lambda w: w**2,
    "tanh": jnp.tanh,
    "sum": lambda w: w.sum(),
    "mean over axis": lambda w: w.mean(axis=0, keepdims=True),
    "softmax": jax.nn.softmax,
    "einsum": lambda w: jnp.einsum("bm,mn->bn", LEFT, w),
    "einsum of three": lambda w: jnp.einsum("bm,mn,nk->kb", LEFT, w, RIGHT),
    "einsum, batched": lambda w: jnp.einsum("mn,mn->m", w, SAME),
    "einsum, trace": lambda w: jnp.einsum("mn,mn->", w, w),
    "tensordot": lambda w: jnp.tensordot(w, SAME, axes=((0,), (0,))),
    "vdot": lambda w: jnp.vdot(w, SAME),
    "w[0]": lambda w: w[0],
    "w[1:, ::2]": lambda w: w[1:, ::2],
    "w[..., None]": lambda w: w[..., None],
    "w[indices]": lambda w: w[jnp.array([2, 0])],
    "w[mask]": lambda w: jnp.where(SAME > 0, w, 0.0),
    "x[i] of a dense": lambda w: SAME[jnp.array([0, 1])] + w[:2],
    "at set": lambda w: w.at[0].set(1.0),
    "at add": lambda w: w.at[1, 2].add(SAME[0, 0]),
    "at multiply": lambda w: w.at[:, 1].multiply(2.0),
    "at of a dense": lambda w: SAME.at[0].set(w[1]),
    "at get": lambda w: w.at[5, :].get(mode="fill", fill_value=7.0),
    "concatenate": lambda w: jnp.concatenate([w, SAME, w], axis=1),
    "stack": lambda w: jnp.stack([w, SAME]),
    "pad": lambda w: jnp.pad(w, 1),
    "reshape": lambda w: w.reshape(2, 6),
    "split": lambda w: jnp.split(w, 2, axis=1),
    "sort": lambda w: jnp.sort(w, axis=1),
    "argmax": lambda w: jnp.argmax(w, axis=1),
    "astype": lambda w: w.astype(jnp.bfloat16),
    "isfinite": jnp.isfinite,
    "compare": lambda w: w > SAME,
    "cumsum": lambda w: jnp.cumsum(w, axis=0),
    "linalg": lambda w: jnp.linalg.norm(w),
    "stop_gradient": lax.stop_gradient,
    "shape": lambda w: jnp.zeros(w.shape, w.dtype) + w.size * w.ndim,
    "where": lambda w: jnp.where(w > 0, w, SAME),
    "clip": lambda w: jnp.clip(w, -1.0, 1.0),
    "cond": lambda w: lax.cond(SAME[0, 0] > 0, lambda v: v * 2.0, lambda v: -v, w),
    "scan": lambda w: lax.scan(lambda c, row: (c + row, row * 2.0), jnp.zeros(4), w),
    "while": lambda w: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + w, jnp.zeros((3, 4))),
    "checkpoint": jax.checkpoint(lambda w: jnp.sin(LEFT @ w)),
    "map": lambda w: lax.map(lambda row: row * 2.0, w),
    "inner jit": jax.jit(lambda w: jnp.sin(w) @ RIGHT),
    "inner grad": jax.grad(lambda w: jnp.sum(jnp.tanh(LEFT @ w))),
    "inner value_and_grad": jax.value_and_grad(lambda w: jnp.sum(w * w)),
    "inner vmap": lambda w: jax.vmap(lambda row: row @ RIGHT)(w),
    "inner vmap, second axis": lambda w: jax.vmap(jnp.sum, in_axes=1)(w),
    "inner jvp": lambda w: jax.jvp(jnp.sin, (w,), (SAME,)),
    "inner vjp": lambda w: jax.vjp(lambda v: LEFT @ v, w)[1](numbers(23, 2, 4)),
    "inner jacobian": lambda w: jax.jacfwd(lambda s: jnp.sum(w * s))(2.0),
    **CUSTOM,
}

functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS.keys())


@functions
@pytest.mark.parametrize("name", ["lora", "zeros", "rows", "nested"])
def test_implicit_equals_materialized(f: Callable[..., Any], name: str) -> None:
    value, dense = CASES[name].both()
    close(tq.materialize(implicit(f)(value)), f(dense))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in CUSTOM])
def test_implicit_equals_materialized_under_jit(name: str) -> None:
    f = FUNCTIONS[name]
    value, dense = CASES["nested"].both()
    close(tq.materialize(jax.jit(implicit(f))(value)), f(dense))


@pytest.mark.parametrize("name", ["nested", "zeros"])
@pytest.mark.parametrize("f", CUSTOM.values(), ids=CUSTOM.keys())
def test_a_custom_rule_decides_the_gradient_in_the_fields(f: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    leaves = case.make(0)

    def total(out: Any) -> Array:
        return sum(
            (jnp.sum(leaf * (i + 1.0)) for i, leaf in enumerate(jax.tree.leaves(out))),
            jnp.zeros(()),
        )

    expected = jax.grad(lambda leaves: total(f(case.meaning(*leaves))))(leaves)
    got = jax.grad(lambda leaves: total(implicit(f)(case.build(*leaves))))(leaves)
    close(got, expected)
    if name == "nested":
        jitted = jax.jit(jax.grad(lambda leaves: total(jax.jit(implicit(f))(case.build(*leaves)))))
        close(jitted(leaves), expected)


@pytest.mark.parametrize("f", CUSTOM.values(), ids=CUSTOM.keys())
def test_a_custom_rule_decides_the_gradient_in_the_represented_array(
    f: Callable[..., Any],
) -> None:
    value, dense = CASES["lora"].both()
    loss: Callable[..., Any] = lambda w: sum(
        (jnp.sum(leaf) for leaf in jax.tree.leaves(f(w))), jnp.zeros(())
    )
    close(tq.materialize(implicit(jax.grad(loss))(value)), jax.grad(loss)(dense))


JVPS = {name: f for name, f in CUSTOM.items() if "vjp" not in name}


@pytest.mark.parametrize("name", ["lora", "nested", "scaled", "rows"])
@pytest.mark.parametrize("f", JVPS.values(), ids=JVPS.keys())
def test_a_custom_jvp_decides_the_tangent_of_the_fields(f: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    primals, tangents = case.make(0), case.make(40)
    got = jax.jvp(lambda *leaves: implicit(f)(case.build(*leaves)), primals, tangents)
    close(tq.materialize(got), jax.jvp(lambda *leaves: f(case.meaning(*leaves)), primals, tangents))


# --- derivatives ----------------------------------------------------------------------------------


def loss(w: Array) -> Array:
    """Of a little network, with a matrix on both sides."""
    return jnp.sum(jnp.tanh(LEFT @ w) @ (w.T @ SAME[:, :2]) * 0.5)


with_leaves = pytest.mark.parametrize("name", [name for name in CASES if name != "zeros"])


@with_leaves
def test_grad_outside_is_the_gradient_in_the_fields(name: str) -> None:
    case = CASES[name]
    value, _ = case.both()
    expected = jax.grad(lambda leaves: loss(case.meaning(*leaves)))(case.make(0))
    gradient = jax.grad(implicit(loss))(value)
    assert type(gradient) is type(value)
    close(tuple(jax.tree.leaves(gradient)), expected)


@with_leaves
def test_value_and_grad_outside_gives_both(name: str) -> None:
    case = CASES[name]
    value, dense = case.both()
    expected = jax.grad(lambda leaves: loss(case.meaning(*leaves)))(case.make(0))
    got, gradient = jax.value_and_grad(implicit(loss))(value)
    close(got, loss(dense))
    close(tuple(jax.tree.leaves(gradient)), expected)


@cases
def test_grad_inside_is_the_gradient_in_the_represented_array(case: Any) -> None:
    value, dense = case.both()
    close(tq.materialize(implicit(jax.grad(loss))(value)), jax.grad(loss)(dense))


@pytest.mark.parametrize("name", ["lora", "nested"])
def test_jit_and_grad_commute_with_the_transform(name: str) -> None:
    case = CASES[name]
    value, _ = case.both()
    expected = jax.grad(lambda leaves: loss(case.meaning(*leaves)))(case.make(0))
    for gradient in (
        jax.grad(jax.jit(implicit(loss)))(value),
        jax.grad(implicit(jax.jit(loss)))(value),
        jax.jit(jax.grad(jax.jit(implicit(jax.jit(loss)))))(value),
    ):
        close(tuple(jax.tree.leaves(gradient)), expected)


def test_grad_of_some_arguments_is_of_those() -> None:
    value, dense = CASES["lora"].both()
    f: Callable[..., Any] = lambda x, w: jnp.sum(jnp.sin(x @ w))
    close(jax.grad(implicit(f))(LEFT, value), jax.grad(f)(LEFT, dense))
    first, second = jax.grad(implicit(f), argnums=(0, 1))(LEFT, value)
    close(first, jax.grad(f)(LEFT, dense))
    assert type(second) is LoraMatrix


def test_grad_by_one_field_is_of_that_field() -> None:
    case = CASES["lora"]
    w, a, b = case.make(0)
    got = jax.grad(lambda a: implicit(loss)(case.build(w, a, b)))(a)
    close(got, jax.grad(lambda a: loss(case.meaning(w, a, b)))(a))


def test_the_gradient_of_a_leafless_array_has_no_numbers() -> None:
    value, _ = CASES["zeros"].both()
    gradient = jax.grad(implicit(loss))(value)
    assert type(gradient) is Zeros
    assert gradient.shape == (3, 4)
    assert sum(leaf.size for leaf in jax.tree.leaves(gradient)) == 0


@with_leaves
def test_jvp_outside_is_the_tangent_of_the_fields(name: str) -> None:
    case = CASES[name]
    value, tangent = case.both()[0], case.both(50)[0]
    got = jax.jvp(implicit(loss), (value,), (tangent,))
    expected = jax.jvp(lambda *leaves: loss(case.meaning(*leaves)), case.make(0), case.make(50))
    close(got, expected)


@with_leaves
def test_vjp_outside_is_the_cotangent_of_the_fields(name: str) -> None:
    case = CASES[name]
    value, _ = case.both()
    out, pullback = jax.vjp(implicit(lambda w: LEFT @ w), value)
    expected, expected_pullback = jax.vjp(lambda *v: LEFT @ case.meaning(*v), *case.make(0))
    close(out, expected)
    ct = numbers(60, 2, 4)
    close(tuple(jax.tree.leaves(pullback(ct)[0])), tuple(expected_pullback(ct)))


def test_second_derivatives_agree() -> None:
    case = CASES["lora"]
    w, a, b = case.make(0)
    f: Callable[..., Any] = lambda w: jnp.sum(wrong_jvp(LEFT @ w) * (LEFT @ w))
    got = jax.jit(jax.hessian(lambda a: implicit(f)(case.build(w, a, b))))(a)
    close(got, jax.jit(jax.hessian(lambda a: f(case.meaning(w, a, b))))(a), 2e-4)


def test_has_aux_passes_implicit_arrays_through() -> None:
    value, dense = CASES["lora"].both()
    f: Callable[..., Any] = lambda w: (loss(w), {"w": w * 2.0})
    gradient, aux = jax.grad(implicit(f), has_aux=True)(value)
    assert type(gradient) is type(aux["w"]) is LoraMatrix
    close(tq.materialize(aux), {"w": dense * 2.0})


def test_a_gradient_taken_inside_can_have_a_class_of_its_own() -> None:
    value, dense = CASES["lora"].both()
    got = implicit(lambda w: jax.grad(lambda x: jnp.sum(x @ w))(LEFT))(value)
    close(tq.materialize(got), jax.grad(lambda x: jnp.sum(x @ dense))(LEFT))


# --- jit ------------------------------------------------------------------------------------------


def test_jit_compiles_once_for_arrays_of_one_type() -> None:
    traced = []

    @jax.jit
    @tq.use_implicit_args(handlers=TABLE)
    def f(w: Array) -> Array:
        traced.append(1)
        return LEFT @ w

    for seed in range(3):
        value, dense = CASES["lora"].both(seed)
        close(f(value), LEFT @ dense)
    assert len(traced) == 1
    f(dense)
    assert len(traced) == 2


def test_static_arguments_stay_static() -> None:
    value, dense = CASES["lora"].both()

    @functools.partial(jax.jit, static_argnums=1, static_argnames="times")
    def f(w: Array, axis: int, *, times: int) -> Array:
        assert type(axis) is type(times) is int
        return jnp.sum(w, axis=axis) * float(times)

    close(implicit(f)(value, 1, times=3), dense.sum(axis=1) * 3.0)
    outside = jax.jit(implicit(lambda w, axis: jnp.sum(w, axis=axis)), static_argnums=1)
    close(outside(value, 0), dense.sum(axis=0))


def test_a_jitted_function_given_implicit_arrays_keeps_its_structure() -> None:
    value, _ = CASES["lora"].both()

    @jax.jit
    def layer(x: Array, w: Array) -> Array:
        return x @ w

    jaxpr = jax.make_jaxpr(implicit(lambda x, w: layer(x, w)))(LEFT, value)
    (eqn,) = jaxpr.eqns
    assert eqn.primitive.name == "jit"
    assert eqn.params["name"] == "layer"
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns].count("dot_general") == 3


@pytest.mark.parametrize("inside", [True, False], ids=["jit inside", "jit outside"])
def test_donation_is_kept_for_every_leaf(inside: bool) -> None:
    value, dense = CASES["lora"].both()
    f: Callable[..., Any] = lambda w, x: (w * 2.0, x + 1.0)
    donating = (
        implicit(jax.jit(f, donate_argnums=0)) if inside else jax.jit(implicit(f), donate_argnums=0)
    )
    result, x = donating(value, SAME)
    close(tq.materialize(result), dense * 2.0)
    close(x, SAME + 1.0)
    assert value.w.is_deleted()
    assert value.a.is_deleted()
    assert not SAME.is_deleted()


def test_jit_inside_jit_inside_the_transform_agrees() -> None:
    value, dense = CASES["nested"].both()
    f = jax.jit(lambda w: jax.jit(lambda v: LEFT @ v)(w * 2.0) + 1.0)
    close(jax.jit(implicit(f))(value), f(dense))


def test_a_jitted_function_can_be_lowered_and_compiled_with_implicit_arrays() -> None:
    value, dense = CASES["lora"].both()
    f = jax.jit(implicit(lambda w: LEFT @ w))
    close(f.lower(value).compile()(value), LEFT @ dense)
    g = implicit(jax.jit(lambda w: LEFT @ w))
    close(g.lower(value).compile()(value), LEFT @ dense)  # type: ignore[attr-defined]  # of jit


def test_eval_shape_tells_the_shape_without_computing() -> None:
    value, _ = CASES["lora"].both()
    out = jax.eval_shape(implicit(lambda w: LEFT @ w), value)
    assert (out.shape, out.dtype) == ((2, 4), jnp.float32)
    kept = jax.eval_shape(implicit(lambda w: w.T), value)
    assert type(kept) is LoraMatrix
    assert kept.shape == (4, 3)


def test_disabled_jit_gives_the_same() -> None:
    value, dense = CASES["nested"].both()
    with jax.disable_jit():
        close(implicit(jax.jit(loss))(value), loss(dense))


def test_handlers_that_become_installed_are_seen_through_a_jitted_function() -> None:
    class Local(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x

    def negate(v: Local, /) -> Local:
        return Local(v.x * -1.0)

    inner = jax.jit(lambda x: -x)
    f = tq.use_implicit_args(inner)
    value = Local(SAME)
    assert not tq.is_implicit(f(value))
    with tq.installed(tq.HandlerTable("later", ops.neg.to(negate))):
        assert type(f(value)) is Local
    assert not tq.is_implicit(f(value))


# --- vmap -----------------------------------------------------------------------------------------

AXES = {
    "all fields": CASES["lora"].build(0, 0, 0),
    "the update": CASES["lora"].build(None, 0, 0),
    "one field": CASES["lora"].build(None, 0, None),
}


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES.keys())
def test_vmap_outside_maps_the_fields_that_it_is_told(axes: LoraMatrix) -> None:
    shapes = {"w": (3, 4), "a": (3, 2), "b": (4, 2)}
    leaves = [
        numbers(i, *((5,) if getattr(axes, n) is not None else ()), *shapes[n])
        for i, n in enumerate(shapes)
    ]
    spec = tuple(getattr(axes, n) for n in shapes)

    def one(w: Array, a: Array, b: Array) -> Array:
        return jnp.tanh(LEFT @ (w + 0.5 * a @ b.T))

    seen = []

    def f(w: Array) -> Array:
        seen.append(w.shape)
        return jnp.tanh(LEFT @ w)

    got = jax.vmap(implicit(f), in_axes=(axes,))(CASES["lora"].build(*leaves))
    close(got, jax.vmap(one, in_axes=spec)(*leaves))
    assert seen == [(3, 4)]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap_outside_takes_any_axis_of_the_leaves(axis: int) -> None:
    stack = [CASES["lora"].make(seed) for seed in (0, 10, 20)]
    leaves = [jnp.stack([s[i] for s in stack], axis=axis) for i in range(3)]
    mapped = CASES["lora"].build(*leaves) if axis == 0 else _unchecked(LoraMatrix, leaves)
    got = jax.vmap(implicit(lambda w: LEFT @ w), in_axes=axis)(mapped)
    close(got, jnp.stack([LEFT @ CASES["lora"].meaning(*s) for s in stack]))


def _unchecked(cls: Any, leaves: Any) -> Any:
    _, tree = jax.tree.flatten(cls(*[None] * len(leaves), 0.5), is_leaf=lambda x: x is None)
    return jax.tree.unflatten(tree, leaves)


def test_vmap_of_a_leafless_array_maps_its_shape() -> None:
    z = Zeros(shape=(5, 3), dtype=jnp.float32)
    y = numbers(1, 5, 3)
    seen = []

    def f(z: Array, y: Array) -> Array:
        seen.append(z.shape)
        return z + y

    got = jax.vmap(implicit(f))(z, y)
    assert seen == [(3,)]
    close(got, y)
    assert jax.vmap(implicit(f), in_axes=(None, 0))(
        Zeros(shape=(3,), dtype=jnp.float32), y
    ).shape == (5, 3)


def test_an_implicit_result_of_vmap_is_stacked() -> None:
    stack = [CASES["lora"].make(seed) for seed in (0, 10)]
    leaves = [jnp.stack([s[i] for s in stack]) for i in range(3)]
    got = jax.vmap(implicit(lambda w: w.T * 2.0))(CASES["lora"].build(*leaves))
    assert type(got) is LoraMatrix
    assert got.shape == (2, 4, 3)
    close(tq.materialize(got), jnp.stack([2.0 * CASES["lora"].meaning(*s).T for s in stack]))
    z = jax.vmap(implicit(lambda z: -z))(Zeros(shape=(5, 3), dtype=jnp.float32))
    assert type(z) is Zeros
    assert z.shape == (5, 3)


def test_nested_vmap_outside_peels_one_batch_axis_each() -> None:
    leaves = [numbers(i, 2, 5, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]
    f: Callable[..., Any] = lambda w: jnp.sin(LEFT @ w)
    got = jax.vmap(jax.vmap(implicit(f)))(CASES["lora"].build(*leaves))
    close(got, jax.vmap(jax.vmap(lambda *v: f(lora_dense(*v))))(*leaves))


def lora_dense(w: Array, a: Array, b: Array) -> Array:
    return w + 0.5 * a @ b.T


NUMBERED = {name: f for name, f in CUSTOM.items() if "true one" in name or "results" in name}


@pytest.mark.parametrize("f", NUMBERED.values(), ids=NUMBERED.keys())
def test_vmap_outside_keeps_custom_rules(f: Callable[..., Any]) -> None:
    leaves = [numbers(i, 2, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]

    def gradient(g: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(
            jax.grad(lambda w: sum((jnp.sum(x) for x in jax.tree.leaves(g(w))), jnp.zeros(())))
        )

    got = gradient(implicit(f))(CASES["lora"].build(*leaves))
    expected = gradient(lambda leaves: f(lora_dense(*leaves)))(tuple(leaves))
    close(tuple(jax.tree.leaves(got)), expected)


def test_scan_outside_over_stacked_arrays_sees_one_at_a_time() -> None:
    leaves = [numbers(i, 5, *s) for i, s in enumerate([(4, 4), (4, 2), (4, 2)])]
    stacked = CASES["lora"].build(*leaves)
    x = numbers(9, 2, 4)

    def step(x: Array, w: Array) -> tuple[Array, Array]:
        out = jnp.tanh(implicit(lambda x, w: x @ w)(x, w))
        return out, out.sum()

    def dense_step(x: Array, leaves: Any) -> tuple[Array, Array]:
        out = jnp.tanh(x @ lora_dense(*leaves))
        return out, out.sum()

    close(lax.scan(step, x, stacked), lax.scan(dense_step, x, tuple(leaves)))


def test_scan_outside_over_a_leafless_array_slices_its_shape() -> None:
    seen = []

    def step(c: Array, z: Any) -> tuple[Array, Any]:
        seen.append(z.shape)
        return implicit(jnp.add)(c, z), z

    carry, stacked = lax.scan(step, jnp.ones(3), Zeros(shape=(5, 3), dtype=jnp.float32))
    assert set(seen) == {(3,)}
    close(carry, jnp.ones(3))
    assert type(stacked) is Zeros
    assert stacked.shape == (5, 3)


def test_map_outside_gives_the_same_as_inside() -> None:
    leaves = [numbers(i, 5, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]
    f: Callable[..., Any] = lambda w: LEFT @ w
    got = lax.map(implicit(f), CASES["lora"].build(*leaves))
    close(got, jnp.stack([f(lora_dense(*v)) for v in zip(*leaves, strict=True)]))


def test_slicing_the_leaves_of_a_stack_gives_one_of_it() -> None:
    leaves = [numbers(i, 5, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]
    one = jax.tree.map(lambda leaf: leaf[2], CASES["lora"].build(*leaves))
    assert one.shape == (3, 4)
    close(implicit(lambda w: LEFT @ w)(one), LEFT @ lora_dense(*[leaf[2] for leaf in leaves]))


def test_an_event_axis_that_was_sliced_is_a_shape_error_at_first_use() -> None:
    value = LoraMatrix(numbers(0, 4, 4), numbers(1, 4, 2), numbers(2, 4, 2))
    with pytest.raises(tq.ShapeError) as caught:
        jax.vmap(implicit(lambda w: w * 2.0))(value)
    assert str(caught.value) == (
        "LoraMatrix.w has shape (4,), which is 1 axis, but its annotation names 2. An axis that "
        "the annotation names was taken away from outside, by slicing, vmap, scan or map over the "
        "fields. Index the LoraMatrix itself under use_implicit_args, or map an axis in front of "
        "the 2 that it names."
    )


# --- which handlers decide ------------------------------------------------------------------------


def never(x: Scaled, /) -> Scaled:
    raise AssertionError("this handler is not the one")


def minus_via_table(x: Scaled, /) -> Scaled:
    return Scaled(-x.x, x.factor)


def test_handlers_given_come_before_those_installed() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
        f = tq.use_implicit_args(
            jnp.negative, handlers=tq.HandlerTable("given", ops.neg.to(minus_via_table))
        )
        close(tq.materialize(f(value)), -dense)
        with pytest.raises(AssertionError, match="not the one"):
            tq.use_implicit_args(jnp.negative)(value)


def test_installed_handlers_are_used_where_those_given_do_not_take_it() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(minus_via_table))):
        f = transformed(
            lambda x: (-x, x * 2.0),
            handlers=tq.HandlerTable("given", ops.mul.to(scale_scaled, commutative=True)),
        )
        result = f(value)
        assert [type(r) for r in result] == [Scaled, Scaled]
        close(tq.materialize(result), (-dense, dense * 2.0))


def test_isolated_handlers_are_the_only_ones() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
        f = transformed(
            lambda x: (-x, x * 2.0),
            handlers=tq.HandlerTable("given", ops.mul.to(scale_scaled, commutative=True)),
            isolated=True,
        )
        negated, doubled = f(value)
        assert not tq.is_implicit(negated)
        assert type(doubled) is Scaled
        close((negated, tq.materialize(doubled)), (-dense, dense * 2.0))


def test_isolated_without_handlers_has_none() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
        close(tq.use_implicit_args(jnp.negative, isolated=True)(value), -dense)


def test_an_inner_transform_with_handlers_of_its_own_uses_those() -> None:
    value, dense = CASES["scaled"].both()
    inner = tq.use_implicit_args(
        jnp.negative, handlers=tq.HandlerTable("inner", ops.neg.to(minus_via_table))
    )
    outer = transformed(
        lambda x: inner(x) * 2.0,
        handlers=tq.HandlerTable(
            "outer", ops.neg.to(never), ops.mul.to(scale_scaled, commutative=True)
        ),
    )
    result = outer(value)
    assert type(result) is Scaled
    close(tq.materialize(result), -dense * 2.0)


def test_an_inner_transform_without_handlers_uses_those_of_the_outer() -> None:
    value, dense = CASES["scaled"].both()
    inner = tq.use_implicit_args(jnp.negative)
    for function in (inner, jax.jit(inner)):
        outer = tq.use_implicit_args(
            function, handlers=tq.HandlerTable("outer", ops.neg.to(minus_via_table))
        )
        with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
            result = outer(value)
        assert type(result) is Scaled
        close(tq.materialize(result), -dense)


class Plus(tq.ImplicitArray, materialization="error"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        raise AssertionError("not here")

    def compute_shape(self) -> tuple[int, ...]:
        return self.x.shape

    def compute_dtype(self) -> Any:
        return self.x.dtype


def plus_one(x: Plus, /, **_params: Any) -> Array:
    return x.x + 1.0


def plus_two(x: Plus, /, **_params: Any) -> Array:
    return x.x + 2.0


PLUS_ONE = tq.HandlerTable("plus one", ops.neg.to(plus_one))
PLUS_TWO = tq.HandlerTable("plus two", ops.neg.to(plus_two))

PLACES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "called": lambda f: f,
    "jit": jax.jit,
    "jit in jit": lambda f: jax.jit(lambda x: jax.jit(f)(x)),
    "vmap": jax.vmap,
    "checkpoint": jax.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, length=1)[1][0],
    "while_loop": lambda f: (
        lambda x: lax.while_loop(
            lambda s: s[0] < 1, lambda s: (s[0] + 1, f(x)), (jnp.int32(0), jnp.zeros(3))
        )[1]
    ),
    "cond": lambda f: lambda x: lax.cond(jnp.bool_(True), f, lambda x: jnp.zeros(3), x),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[0],
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones(3),))[0],
    "linearize in jit": lambda f: jax.jit(lambda x: jax.linearize(f, x)[0]),
    "custom_vjp": lambda f: _with_vjp(f),
}


def _with_vjp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return g


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_handlers_of_an_inner_transform_are_used_whatever_stands_between(place: Any) -> None:
    inner = transformed(lambda x: jnp.negative(x), handlers=PLUS_TWO)
    outer = transformed(
        lambda x: (jnp.negative(x), place(inner)(x), jnp.negative(x)), handlers=PLUS_ONE
    )
    x = jnp.arange(3.0)
    close(outer(Plus(x)), (x + 1.0, x + 2.0, x + 1.0))


def test_isolation_of_an_inner_transform_holds_inside_jit() -> None:
    inner = jax.jit(transformed(lambda x: jnp.negative(x), isolated=True))
    outer = transformed(lambda x: inner(x), handlers=PLUS_ONE)
    with pytest.raises(tq.MaterializationError, match="neg"):
        outer(Plus(jnp.arange(3.0)))


def test_handlers_of_an_inner_transform_are_used_where_jit_traced_it_before() -> None:
    inner = jax.jit(transformed(lambda x: jnp.negative(x), handlers=PLUS_TWO))
    x = jnp.arange(3.0)
    close(inner(x), jnp.negative(x))  # dense, so that no handler has a part in what jit keeps
    close(transformed(lambda x: inner(x), handlers=PLUS_ONE)(Plus(x)), x + 2.0)


def test_handlers_of_an_inner_transform_are_used_on_what_it_closes_over() -> None:
    def outer(x: Any) -> Any:
        return jax.jit(transformed(lambda: jnp.negative(x), handlers=PLUS_TWO))()

    x = jnp.arange(3.0)
    close(transformed(outer, handlers=PLUS_ONE)(Plus(x)), x + 2.0)


def test_handlers_brought_along_change_no_name_in_the_compiled_program() -> None:
    f = transformed(lambda x: jnp.negative(x) * 2.0, handlers=PLUS_TWO)
    text = jax.jit(f).lower(jnp.ones(3)).as_text(debug_info=True)
    assert 'loc("jit(<lambda>)/neg"' in text


# --- default_handler, materialize -----------------------------------------------------------------


class Base(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


class Derived(Base): ...


def test_a_handler_defers_to_the_one_of_the_base_class() -> None:
    ran = []

    def of_base(x: Base, /) -> Array:
        ran.append("base")
        return -x.x

    def of_derived(x: Derived, /) -> Array:
        ran.append("derived")
        return tq.default_handler(ops.neg, x)

    table = tq.HandlerTable("t", ops.neg.to(of_base), ops.neg.to(of_derived))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Derived(SAME)), -SAME)
    assert ran == ["derived", "base"]


def test_the_last_handler_defers_to_materialization() -> None:
    ran = []

    def only(x: Base, /) -> Array:
        ran.append(1)
        return tq.default_handler(lax.neg_p, x)  # type: ignore[no-any-return]  # a primitive of lax is Any

    table = tq.HandlerTable("t", ops.neg.to(only))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Base(SAME)), -SAME)
    assert ran == [1]


def test_default_handler_on_other_operands_starts_from_the_first_handler() -> None:
    depth = []

    def halved(x: Base, /) -> Array:
        depth.append(1)
        if len(depth) < 4:
            return 2.0 * tq.default_handler(ops.neg, Base(x.x / 2.0))
        return -x.x

    table = tq.HandlerTable("t", ops.neg.to(halved))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Base(SAME)), -SAME)
    assert len(depth) == 4


def test_default_handler_passes_params_on() -> None:
    def summed(x: Base, /, **params: Any) -> Array:
        return tq.default_handler(ops.reduce_sum, x, **params)

    table = tq.HandlerTable("t", ops.reduce_sum.to(summed))
    got = transformed(lambda x: x.sum(axis=1), handlers=table)(Base(SAME))
    close(got, SAME.sum(axis=1))


def test_default_handler_with_swapped_operands_still_goes_on() -> None:
    ran = []

    def minus(x: Base, y: Array, /) -> Array:
        ran.append(1)
        return tq.default_handler(ops.mul, x, y)

    table = tq.HandlerTable("t", ops.mul.to(minus, commutative=True))
    both: tuple[Callable[..., Any], ...] = (lambda x: x * SAME, lambda x: SAME * x)
    for f in both:
        close(tq.use_implicit_args(f, handlers=table)(Base(SAME)), SAME * SAME)
    assert len(ran) == 2


def test_default_handler_outside_applies_the_primitive_with_dispatch() -> None:
    with tq.installed(TABLE):
        result = tq.default_handler(ops.neg, CASES["scaled"].both()[0])
    assert type(result) is Scaled
    close(tq.materialize(result), -CASES["scaled"].both()[1])


def test_default_handler_of_dense_operands_is_the_primitive() -> None:
    close(tq.default_handler(lax.add_p, SAME, SAME), SAME + SAME)


def test_default_handler_gives_a_list_where_the_primitive_has_several_results() -> None:
    result = tq.default_handler(ops.split, Plain(SAME), sizes=(1, 3), axis=1)
    assert isinstance(result, list)
    close(list(result), [SAME[:, :1], SAME[:, 1:]])


def test_default_handler_wants_a_primitive_first() -> None:
    with pytest.raises(TypeError, match=r"a primitive or an op as its first argument, not 'neg'"):
        tq.default_handler("neg", SAME)  # type: ignore[call-overload]  # that is the mistake


def test_materialize_of_a_tree_makes_each_implicit_array_dense() -> None:
    value, dense = CASES["nested"].both()
    tree: dict[str, Any] = {"a": [value, 3, "s"], "b": SAME}
    got = tq.materialize(tree)
    assert got["a"][1:] == [3, "s"]
    assert got["b"] is SAME
    close(got["a"][0], dense)


def test_materialize_inside_gives_the_dense_array() -> None:
    value, dense = CASES["lora"].both()
    close(implicit(lambda w: tq.materialize(w))(value), dense)
    close(implicit(lambda w: tq.materialize({"w": w.T}))(value), {"w": dense.T})
    close(jax.jit(implicit(lambda w: w.materialize() + 1.0))(value), dense + 1.0)


# --- what stays behind ----------------------------------------------------------------------------


class ExpectedError(Exception):
    """Raised on purpose."""


def raising(x: Base, /) -> Array:
    raise ExpectedError


class Failing(tq.ImplicitArray, materialization="allow"):
    x: Float[tq.ArrayValue, "..."]

    def compute_shape(self) -> tuple[int, ...]:
        return self.x.shape

    def compute_dtype(self) -> Any:
        return self.x.dtype

    def materialize(self) -> Array:
        raise ExpectedError


def _raises_in(f: Any) -> Any:
    raise ExpectedError


bad_bwd = jax.custom_vjp(lambda x: x * 2.0)
bad_bwd.defvjp(lambda x: (x * 2.0, x), lambda _, ct: _raises_in(ct))

RAISING: dict[str, Callable[[], Any]] = {
    "the function": lambda: implicit(_raises_in)(Plain(SAME)),
    "a handler": lambda: tq.use_implicit_args(
        jnp.negative, handlers=tq.HandlerTable("t", ops.neg.to(raising))
    )(Base(SAME)),
    "a handler in jit": lambda: jax.jit(
        tq.use_implicit_args(
            jax.jit(jnp.negative), handlers=tq.HandlerTable("t", ops.neg.to(raising))
        )
    )(Base(SAME)),
    "a handler in scan": lambda: transformed(
        lambda b: lax.scan(lambda c, _: (c + (-b), None), SAME, None, length=2),
        handlers=tq.HandlerTable("t", ops.neg.to(raising)),
    )(Base(SAME)),
    "materialize": lambda: implicit(jnp.sin)(Failing(SAME)),
    "materialize under grad": lambda: jax.grad(implicit(lambda x: jnp.sum(jnp.sin(x))))(
        Failing(SAME)
    ),
    "materialize under vmap": lambda: jax.vmap(implicit(jnp.sin))(Failing(SAME)),
    "a bwd rule": lambda: jax.grad(implicit(lambda x: jnp.sum(bad_bwd(x))))(Plain(SAME)),
    "tq.materialize": lambda: tq.materialize(Failing(SAME)),
    "an operator": lambda: Failing(SAME) + 1.0,
}


@pytest.mark.parametrize("call", RAISING.values(), ids=RAISING.keys())
def test_an_exception_anywhere_leaves_no_trace_behind(call: Callable[[], Any]) -> None:
    with pytest.raises(ExpectedError) as caught:
        call()
    del caught
    assert trace_state_clean()
    value, dense = CASES["lora"].both()
    close(implicit(lambda w: LEFT @ w)(value), LEFT @ dense)


def test_after_an_exception_in_a_handler_default_handler_starts_anew() -> None:
    table = tq.HandlerTable("t", ops.neg.to(raising))
    value = Base(SAME)
    with pytest.raises(ExpectedError):
        tq.use_implicit_args(jnp.negative, handlers=table)(value)
    close(tq.default_handler(ops.neg, value), -SAME)


@functions
def test_no_tracer_leaks(f: Callable[..., Any]) -> None:
    value, _ = CASES["nested"].both()
    floats: Callable[..., Any] = lambda tree: [x.astype(jnp.float32) for x in jax.tree.leaves(tree)]
    total: Callable[..., Any] = lambda w: sum(map(jnp.sum, floats(implicit(f)(w))), jnp.zeros(()))
    with jax.checking_leaks():
        jax.make_jaxpr(jax.grad(total))(value)
    assert trace_state_clean()


def test_a_leaked_tracer_is_reported() -> None:
    kept = []
    with pytest.raises(Exception, match=r"[Ll]eaked"), jax.checking_leaks():
        implicit(lambda w: kept.append(w * 2.0))(CASES["lora"].both()[0])
    assert trace_state_clean()


def test_a_leaked_tracer_used_later_is_jax_s_own_error() -> None:
    kept: list[Any] = []
    implicit(lambda w: kept.append(w * 2.0))(CASES["lora"].both()[0])
    with pytest.raises(jax.errors.UnexpectedTracerError):
        jnp.sin(kept[0])
    assert trace_state_clean()


def test_threads_do_not_meet() -> None:
    failures: list[BaseException] = []
    jitted = jax.jit(implicit(lambda w: LEFT @ w))

    def work(seed: int) -> None:
        try:
            with jax.check_tracer_leaks(False):  # a setting of each thread
                for k in range(10):
                    value, dense = CASES["lora"].both(seed + k)
                    close(jitted(value), LEFT @ dense)
                    close(implicit(lambda w: jnp.tanh(LEFT @ w.T.T))(value), jnp.tanh(LEFT @ dense))
        except BaseException as error:  # noqa: BLE001  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_handler_may_use_the_transform_again() -> None:
    def negate(x: Scaled, /) -> Scaled:
        return Scaled(tq.use_implicit_args(jnp.negative)(Plain(x.x)), x.factor)

    value, dense = CASES["scaled"].both()
    result = tq.use_implicit_args(jnp.negative, handlers=tq.HandlerTable("t", ops.neg.to(negate)))(
        value
    )
    close(tq.materialize(result), -dense)
