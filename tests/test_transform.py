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
    close,
    numbers,
    transformed,
)
from tests.transformed_functions import LEFT, SAME, implicit
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


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


# --- what stays behind ----------------------------------------------------------------------------


class Base(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


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


def test_default_handler_of_an_op_leaves_out_what_the_op_does() -> None:
    close(tq.default_handler(ops.sin, SAME), jnp.sin(SAME))
    with tq.materialization("allow"):
        close(
            tq.default_handler(ops.sin, CASES["lora"].both()[0]), jnp.sin(CASES["lora"].both()[1])
        )


def test_a_leaked_tracer_is_reported() -> None:
    kept = []
    with pytest.raises(Exception, match=r"[Ll]eaked"), jax.checking_leaks():
        implicit(lambda w: kept.append(w * 2.0))(CASES["lora"].both()[0])
    assert trace_state_clean()


LATER: dict[str, Callable[[Any], Any]] = {
    "outside": lambda leaked: jnp.sin(leaked),
    "in another transform": lambda leaked: implicit(lambda w: lax.neg(leaked))(
        CASES["lora"].both()[0]
    ),
    "in another transform under jit": lambda leaked: jax.jit(implicit(lambda w: lax.neg(leaked)))(
        CASES["lora"].both()[0]
    ),
}


@pytest.mark.parametrize("where", LATER)
def test_a_leaked_tracer_used_later_is_jax_s_own_error(where: str) -> None:
    kept: list[Any] = []
    implicit(lambda w: kept.append(w * 2.0))(CASES["lora"].both()[0])
    with pytest.raises((jax.errors.UnexpectedTracerError, TypeError), match=r"[Tt]racer"):
        LATER[where](kept[0])
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
