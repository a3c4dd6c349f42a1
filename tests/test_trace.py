"""The trace: the life of one primitive in it - which handler is asked, and with what."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable
from types import NotImplementedType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float, Float32, Int, Shaped

import typedqax as tq
from tests.agreement import assert_same
from tests.implicit_world import (
    CASES,
    TABLE,
    LoraMatrix,
    Plain,
    Rows,
    Scaled,
    Zeros,
    close,
    numbers,
    transformed,
)
from typedqax import ops
from typedqax._call import running_handler
from typedqax._trace import ImplicitTrace, ImplicitTracer, enclosing_trace

SAME = numbers(22, 3, 4)


class Box(tq.ImplicitArray, materialization="allow"):
    x: Shaped[tq.ArrayValue, "..."]

    def materialize(self) -> Shaped[Array, "..."]:
        return self.x


class SubBox(Box): ...


class Chosen(Exception):  # what a handler raises to say that it was chosen
    pass


def chooser(name: str, annotation: Any) -> Callable[..., Any]:
    def handler(x, /, **params):  # type: ignore[no-untyped-def]  # set below
        raise Chosen(name)

    handler.__name__ = handler.__qualname__ = name
    handler.__annotations__ = {"x": annotation, "return": Any}
    return handler


def chosen(table: tq.HandlerTable, value: Any, f: Callable[..., Any] = jnp.negative) -> str:
    """The name of the handler that runs for `f` of `value`; empty where it is made dense."""
    try:
        tq.use_implicit_args(f, handlers=table)(value)
    except Chosen as error:
        return str(error)
    return ""


# --- which handler --------------------------------------------------------------------------------

SPECIFIC = {
    "subclass before base": ([Box, SubBox], SubBox(SAME), 1),
    "class before any implicit": ([tq.ImplicitArray, Box], Box(SAME), 1),
    "dtype category before any": ([Shaped[Box, "..."], Float[Box, "..."]], Box(SAME), 1),
    "dtype before its category": ([Float[Box, "..."], Float32[Box, "..."]], Box(SAME), 1),
    "other category not at all": ([Shaped[Box, "..."], Int[Box, "..."]], Box(SAME), 0),
    "rank before any rank": ([Float[Box, "..."], Float[Box, "m n"]], Box(SAME), 1),
    "other rank not at all": ([Float[Box, "..."], Float[Box, "n"]], Box(SAME), 0),
    "size before name": ([Float[Box, "m n"], Float[Box, "3 n"]], Box(SAME), 1),
    "other size not at all": ([Float[Box, "m n"], Float[Box, "5 n"]], Box(SAME), 0),
    "equal axes before any": ([Float[Box, "m n"], Float[Box, "n n"]], Box(SAME[:, :3]), 1),
    "equal axes only where equal": ([Float[Box, "m n"], Float[Box, "n n"]], Box(SAME), 0),
    "expression before name": ([Float[Box, "m n"], Float[Box, "n n+1"]], Box(SAME), 1),
    "scalar before any": ([Float[Box, "..."], Float[Box, ""]], Box(SAME[0, 0]), 1),
    "variadic with a name": ([Float[Box, "..."], Float[Box, "*b 4"]], Box(SAME), 1),
    "anonymous axis": ([Float[Box, "..."], Float[Box, "_ 4"]], Box(SAME), 1),
    "union": ([tq.ImplicitArray, Box | Zeros], Box(SAME), 1),
}


@pytest.mark.parametrize(("annotations", "value", "index"), SPECIFIC.values(), ids=SPECIFIC.keys())
@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "reversed"])
def test_the_most_specific_handler_runs_in_any_order_of_declaration(
    annotations: list[Any], value: Any, index: int, reverse: bool
) -> None:
    rules = [ops.neg.to(chooser(str(i), a)) for i, a in enumerate(annotations)]
    table = tq.HandlerTable("t", *(rules[::-1] if reverse else rules))
    assert chosen(table, value) == str(index)


def test_precedence_comes_before_specificity() -> None:
    table = tq.HandlerTable(
        "t",
        ops.neg.to(chooser("general", tq.ImplicitArray), precedence=1),
        ops.neg.to(chooser("specific", Box)),
    )
    assert chosen(table, Box(SAME)) == "general"


def test_a_handler_that_takes_none_of_the_operands_does_not_run() -> None:
    table = tq.HandlerTable("t", ops.neg.to(chooser("zeros", Zeros)))
    assert chosen(table, Box(SAME)) == ""


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda f: f,
    "jit outside": jax.jit,
    "eval_shape": lambda f: lambda x: jax.eval_shape(f, x),
    "make_jaxpr": jax.make_jaxpr,
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "vmap": lambda f: lambda x: jax.vmap(f)(jax.tree.map(lambda leaf: leaf[None], x)),
    "checkpoint": jax.checkpoint,
}

INNER: dict[str, Callable[[Array], Array]] = {
    "as it is": jnp.negative,
    "jit": jax.jit(lambda x: -x),
    "checkpoint": jax.checkpoint(lambda x: -x),
    "grad": jax.grad(lambda x: -jnp.sum(-x)),
    "cond": lambda x: lax.cond(True, lambda v: -v, lambda v: v, x),
    "scan": lambda x: lax.scan(lambda c, _: (c, -x), 0.0, None, length=1)[1],
    "custom_jvp": jax.custom_jvp(lambda x: -x),
    "custom_vjp": jax.custom_vjp(lambda x: -x),
    "map": lambda x: lax.map(lambda _: -x, jnp.arange(2)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_the_handler_does_not_depend_on_the_transformation_outside(
    wrap: Callable[[Any], Any],
) -> None:
    class Ranked(tq.ImplicitArray, materialization="allow"):
        x: Float[tq.ArrayValue, "m n"]

        def materialize(self) -> Array:
            return self.x

    table = tq.HandlerTable(
        "t",
        ops.neg.to(chooser("matrix", Float[Ranked, "3 n"])),
        ops.neg.to(chooser("any", Ranked)),
    )
    with pytest.raises(Chosen, match="matrix"):
        wrap(tq.use_implicit_args(jnp.negative, handlers=table))(Ranked(SAME))


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER.keys())
def test_the_handler_does_not_depend_on_the_transformation_inside(
    inner: Callable[[Array], Array],
) -> None:
    table = tq.HandlerTable(
        "t", ops.neg.to(chooser("size", Float[Box, "3 n"])), ops.neg.to(chooser("any", Box))
    )
    if inner is INNER["grad"]:
        table = tq.HandlerTable("t", ops.neg.to(chooser("size", Float[tq.ImplicitArray, "3 n"])))
    if inner is INNER["custom_vjp"]:
        inner.defvjp(lambda x: (-x, None), lambda _, ct: (ct,))  # type: ignore[attr-defined]  # a callable in a dict
    if inner is INNER["custom_jvp"]:
        inner.defjvp(lambda p, t: (-p[0], -t[0]))  # type: ignore[attr-defined]  # the same
    assert chosen(table, Box(SAME), inner) == "size"


@pytest.mark.parametrize(
    "other",
    [SAME, np.asarray(SAME), 2.0, np.float32(2.0), Plain(SAME)],
    ids=["jax", "numpy", "python number", "numpy scalar", "implicit"],
)
def test_any_kind_of_operand_finds_the_handler(other: Any) -> None:
    def times(x: Box, y: Float[tq.ArrayValue, "..."], /, **params: Any) -> Any:
        raise Chosen("times")

    table = tq.HandlerTable("t", ops.mul.to(times))
    assert chosen(table, Box(SAME), lambda x: x * other) == "times"


def test_axis_names_are_shared_between_operands() -> None:
    def matmul(
        x: Float[Array, "m k"], y: Float[Box, "k n"], /, *, dimension_numbers: Any, **params: Any
    ) -> Any:
        raise Chosen("matmul")

    table = tq.HandlerTable("t", ops.dot_general.to(matmul))
    assert chosen(table, Box(SAME), lambda w: numbers(0, 2, 3) @ w) == "matmul"
    assert chosen(table, Box(SAME), lambda w: jnp.einsum("ab,cb->ac", numbers(0, 2, 4), w)) == ""


def test_commutative_handlers_are_given_their_operands_in_their_order() -> None:
    seen = []

    def minus(x: Box, y: Float[Array, "..."], /, **params: Any) -> Array:
        seen.append((type(x), type(y)))
        return x.x * y

    table = tq.HandlerTable("t", ops.mul.to(minus, commutative=True))
    f = transformed(lambda x: (x * SAME, SAME * x), handlers=table)
    one, other = f(Box(SAME))
    close((one, other), (SAME * SAME, SAME * SAME))
    assert [cls for cls, _ in seen] == [Box, Box]


def test_variadic_handlers_take_any_number_of_operands() -> None:
    def stacked(*parts: tq.ArrayValue, dimension: int) -> Array:
        dense = [p.x if isinstance(p, Box) else p for p in parts]
        return jnp.concatenate(dense, dimension)

    table = tq.HandlerTable("t", ops.concatenate.to(stacked))
    f = transformed(lambda x: jnp.concatenate([x, SAME, x]), handlers=table)
    with tq.materialization("error"):
        close(f(Box(SAME)), jnp.concatenate([SAME, SAME, SAME]))


def test_a_group_s_handler_is_given_the_op_first() -> None:
    seen = []

    def either(op: ops.BinaryOp, x: Box, y: Array, /, **params: Any) -> Array:
        seen.append(op)
        return op.bind(x.x, y, **params)

    table = tq.HandlerTable("t", (ops.mul | ops.div).to(either))
    transformed(lambda x: (x * SAME) / SAME + x / SAME, handlers=table)(Box(SAME))
    assert seen == [ops.mul, ops.div]


# --- declining ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declines", [tq.DECLINE, NotImplemented], ids=["DECLINE", "NotImplemented"]
)
def test_after_a_handler_that_declines_the_next_most_specific_runs(declines: Any) -> None:
    ran = []

    def specific(x: Float[Box, "m n"], /) -> Array | tq.Declined | NotImplementedType:
        ran.append("specific")
        return declines  # type: ignore[no-any-return]  # given by the case

    def general(x: Box, /) -> Array:
        ran.append("general")
        return -x.x

    table = tq.HandlerTable("t", ops.neg.to(general), ops.neg.to(specific))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME)), -SAME)
    assert ran == ["specific", "general"]


def test_when_all_decline_the_array_is_materialized() -> None:
    def declines(x: Box, /) -> Array | tq.Declined:
        return tq.DECLINE

    table = tq.HandlerTable("t", ops.neg.to(declines))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME)), -SAME)


def test_a_handler_that_says_it_never_declines_may_not() -> None:
    def never(x: Box, /) -> Array:
        return tq.DECLINE  # type: ignore[return-value]  # that is the mistake

    table = tq.HandlerTable("t", ops.neg.to(never))
    with pytest.raises(tq.ContractError) as caught:
        tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME))
    assert "declined, but its return annotation does not say that it may: Array" in str(
        caught.value
    )
    assert "Annotate the result as `... | typedqax.Declined`." in str(caught.value)


def test_an_unannotated_handler_may_decline() -> None:
    def untyped(x: Box, /):  # type: ignore[no-untyped-def]  # what is tested
        return NotImplemented

    table = tq.HandlerTable("t", ops.neg.to(untyped))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME)), -SAME)


# --- where handlers and materialize run -----------------------------------------------------------


def test_a_handler_is_given_the_arrays_themselves() -> None:
    seen = []

    def negate(x: Box, /) -> Box:
        seen.append(type(x))
        return Box(-x.x)

    table = tq.HandlerTable("t", ops.neg.to(negate))
    f = tq.use_implicit_args(jnp.negative, handlers=table)
    f(Box(SAME))
    jax.jit(f)(Box(SAME))
    assert seen == [Box, Box]


def test_the_code_of_a_handler_is_ordinary_jax_code_outside_the_trace() -> None:
    seen = []

    def negate(x: Box, /) -> Array:
        trace = enclosing_trace()
        seen.append(trace is None)
        assert float(x.x[0, 0]) == float(SAME[0, 0])
        return -x.x

    table = tq.HandlerTable("t", ops.neg.to(negate))
    tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME))
    assert seen == [True]


def test_user_code_that_binds_primitives_may_tell_the_shape() -> None:
    class ByCode(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue

        def compute_shape(self) -> tuple[int, ...]:
            return lax.stop_gradient(self.x * 2.0).shape

        def compute_dtype(self) -> Any:
            return jnp.result_type(lax.stop_gradient(self.x))

        def materialize(self) -> Array:
            return self.x.reshape(self.shape)

    f: Callable[..., Any] = lambda x: jnp.sum(jnp.sin(x))
    for run in (f, jax.jit(f), jax.grad(f), jax.jit(jax.grad(f))):
        close(tq.materialize(tq.use_implicit_args(run)(ByCode(SAME))), run(SAME))
    close(jax.grad(tq.use_implicit_args(f))(ByCode(SAME)).x, jax.grad(f)(SAME))
    close(jax.vmap(tq.use_implicit_args(f))(ByCode(SAME)), jax.vmap(f)(SAME))


def test_no_handler_is_running_between_calls() -> None:
    def negate(x: Box, /) -> Array:
        assert running_handler() is not None
        return -x.x

    assert running_handler() is None
    tq.use_implicit_args(jnp.negative, handlers=tq.HandlerTable("t", ops.neg.to(negate)))(Box(SAME))
    assert running_handler() is None


def test_a_handler_s_own_operations_use_the_handlers_of_the_run() -> None:
    ran = []

    def negate(x: Box, /) -> Array:
        sine_of_zeros: Any = ops.sin.bind(Zeros(shape=x.shape, dtype=x.dtype))
        dense: Array = tq.materialize(sine_of_zeros)
        return -x.x + dense

    def sine(z: Zeros, /) -> Zeros:
        ran.append("sin")
        return z

    table = tq.HandlerTable("t", ops.neg.to(negate), ops.sin.to(sine))
    close(tq.use_implicit_args(jnp.negative, handlers=table, isolated=True)(Box(SAME)), -SAME)
    assert ran == ["sin"]


def test_infinite_recursion_names_the_handler_and_leaves_no_frame_behind() -> None:
    def again(x: Box, /) -> Array:
        return tq.default_handler(ops.neg, Box(x.x))

    table = tq.HandlerTable("t", ops.neg.to(again))
    with pytest.raises(tq.ContractError, match=r"handler again for `neg`.* for ever"):
        tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME))
    assert running_handler() is None


def test_default_handler_on_nested_operands_goes_on() -> None:
    ran = []

    def negate(x: Box, /) -> Array:
        ran.append(1)
        return tq.default_handler(ops.neg, x)

    table = tq.HandlerTable("t", ops.neg.to(negate))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Box(Plain(SAME))), -SAME)
    assert ran == [1]


def test_default_handler_under_jit_inside_a_handler_is_a_new_call() -> None:
    depth = []

    def negate(x: Box, /) -> Array:
        depth.append(1)
        if len(depth) > 1:
            return -x.x
        return jax.jit(lambda y: tq.default_handler(ops.neg, y))(x)  # type: ignore[no-any-return]  # jit gives Any

    table = tq.HandlerTable("t", ops.neg.to(negate))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Box(SAME)), -SAME)


# --- tracers --------------------------------------------------------------------------------------


def test_a_tracer_has_the_class_shape_and_dtype_of_its_array() -> None:
    def f(w: Any) -> None:
        assert type(w) is ImplicitTracer
        for cls in (LoraMatrix, tq.ImplicitArray, jax.Array, jax.core.Tracer):
            assert isinstance(w, cls)
        assert (w.shape, w.dtype, w.ndim, w.size) == ((3, 4), jnp.float32, 2, 12)
        assert w.aval.str_short() == "float32[3,4]"
        assert len(w) == 3

    tq.use_implicit_args(f)(CASES["lora"].both()[0])


def test_an_attribute_that_neither_arrays_nor_the_class_have_is_an_attribute_error() -> None:
    def f(w: Any) -> None:
        assert not hasattr(w, "nothing")
        with pytest.raises(AttributeError, match="nothing"):
            _ = w.nothing

    tq.use_implicit_args(f)(CASES["lora"].both()[0])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        pytest.param("w", "a changed copy is dataclasses.replace(array, w=...).", id="field"),
        pytest.param(
            "alhpa",
            "and 'alhpa' is none of its fields (w, a, b, alpha).",
            id="misspelt",
        ),
    ],
)
def test_what_is_assigned_inside_is_refused_with_what_to_do(name: str, advice: str) -> None:
    with pytest.raises(AttributeError) as caught:
        transformed(lambda lora: setattr(lora, name, SAME))(CASES["lora"].both()[0])
    assert str(caught.value) == (
        f"LoraMatrix.{name} cannot be assigned in a function under use_implicit_args, where an "
        f"array does not change; {advice}"
    )


def test_a_changed_copy_can_be_made_inside() -> None:
    value, dense = CASES["lora"].both()
    replaced = transformed(lambda lora: dataclasses.replace(lora, w=lora.w + 1.0) @ jnp.eye(4))
    close(tq.materialize(replaced(value)), dense + 1.0)


def test_a_value_dependent_branch_on_an_implicit_array_is_decided_when_it_is_concrete() -> None:
    f = transformed(lambda w: 1.0 if (w > 0).all() else 2.0)
    assert f(Plain(jnp.ones(3))) == 1.0
    assert f(Plain(-jnp.ones(3))) == 2.0


def test_jax_s_own_message_tells_of_a_branch_on_a_traced_value() -> None:
    f = transformed(lambda w: 1.0 if (w > 0).all() else 2.0)
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(f)(Plain(jnp.ones(3)))


def test_dense_values_are_not_wrapped() -> None:
    def f(w: Any, x: Any) -> Any:
        y = x * 2.0
        assert not isinstance(y, jax.core.Tracer)
        return y + w

    close(tq.use_implicit_args(f)(Plain(SAME), SAME), SAME * 2.0 + SAME)


def test_concrete_results_of_materialization_are_not_wrapped() -> None:
    def f(w: Any) -> Array:
        y = jnp.sin(w)
        assert not isinstance(y, jax.core.Tracer)
        return y if float(y[0, 0]) < 2.0 else -y

    close(tq.use_implicit_args(f)(Plain(SAME)), jnp.sin(SAME))


def test_compile_time_evaluation_works_inside() -> None:
    def f(w: Any) -> Any:
        with jax.ensure_compile_time_eval():
            n = int(jnp.arange(4).sum())
        return w * float(n)

    close(tq.use_implicit_args(f)(Plain(SAME)), SAME * 6.0)
    close(jax.jit(tq.use_implicit_args(f))(Plain(SAME)), SAME * 6.0)


def test_what_is_staged_is_what_the_handlers_stage() -> None:
    value, _ = CASES["lora"].both()
    f = transformed(lambda x, w: x @ w.T.T, handlers=TABLE)
    with tq.materialization("error"):
        jaxpr = jax.make_jaxpr(f)(numbers(0, 2, 3), value)
    staged = [eqn.primitive.name for eqn in jaxpr.eqns]
    assert staged.count("dot_general") == 3
    assert all(out.aval.shape != (3, 4) or eqn.primitive.name == "transpose"
               for eqn in jaxpr.eqns for out in eqn.outvars)  # fmt: skip


def test_einsum_reaches_the_handler_of_dot_general() -> None:
    value, dense = CASES["lora"].both()
    x = numbers(0, 5, 2, 3)
    for spec in ("abm,mn->abn", "...m,mn->...n"):
        f = transformed(lambda x, w, s=spec: jnp.einsum(s, x, w), handlers=TABLE)
        with tq.materialization("error"):
            close(f(x, value), jnp.einsum(spec, x, dense))


def test_a_dense_function_beside_implicit_arrays_stays_one_call() -> None:
    inner = jax.jit(lambda x: jnp.sin(x) * 2.0)
    jaxpr = jax.make_jaxpr(transformed(lambda w, x: inner(x)))(Plain(SAME), SAME)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["jit"]
    assert not any(isinstance(v, ImplicitTrace) for v in jax.tree.leaves(jaxpr))


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint32, jnp.bool_, jnp.complex64, jnp.int4,
              jnp.float8_e4m3fn], ids=lambda d: np.dtype(d).name,
)  # fmt: skip
def test_every_dtype_passes_through(dtype: Any) -> None:
    dense = jnp.array([[0, 1], [1, 0]]).astype(dtype)
    f: Callable[..., Any] = lambda x: (
        x.astype(jnp.complex64),
        x.T,
        x[0],
        jnp.where(x != x.T, x, x),
    )
    wide: Callable[..., Any] = lambda tree: jax.tree.map(lambda a: a.astype(jnp.complex64), tree)
    close(wide(tq.materialize(tq.use_implicit_args(f)(Plain(dense)))), wide(f(dense)))


def test_x64_values_keep_their_width() -> None:
    with jax.enable_x64(True):
        value = Plain(jnp.ones(3, jnp.float64))
        result = transformed(lambda x: x * 2.0)(value)
        assert result.dtype == jnp.float64


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_pass_through(impl: str) -> None:
    class Keys(tq.ImplicitArray, materialization="allow"):
        key: jax.Array

        def materialize(self) -> jax.Array:
            return self.key

    key = jax.random.key(1, impl=impl)
    f: Callable[..., Any] = lambda k: jax.random.normal(jax.random.fold_in(k, 1), (3,))
    close(tq.use_implicit_args(f)(Keys(key)), f(key))


def test_integer_leaves_have_float0_gradients() -> None:
    class Quantized(tq.ImplicitArray, materialization="allow"):
        values: Int[tq.ArrayValue, "n"]
        scale: Float[tq.ArrayValue, "n"]

        def materialize(self) -> Float[Array, "n"]:
            return self.values.astype(self.scale.dtype) * self.scale

    values, scale = jnp.array([1, 2, 3], jnp.int8), jnp.array([0.5, 1.0, 2.0])
    loss: Callable[..., Any] = lambda w: jnp.sum(jax.nn.relu(w) ** 2)
    gradient = jax.grad(tq.use_implicit_args(loss), allow_int=True)(Quantized(values, scale))
    assert gradient.values.dtype == jax.dtypes.float0
    expected = jax.grad(lambda s: loss(values.astype(jnp.float32) * s))(scale)
    close(gradient.scale, expected)


def test_weak_types_of_dense_values_stay_as_they_are() -> None:
    value = Plain(jnp.ones(2, jnp.bfloat16))
    result = transformed(lambda x, s: (x * s, s * 2.0))(value, jnp.asarray(2.0))
    assert result[0].dtype == jnp.bfloat16
    assert result[1].weak_type


# --- what is kept alive ---------------------------------------------------------------------------


def test_a_jitted_function_that_ran_here_can_be_collected() -> None:
    f = jax.jit(lambda x: jnp.sin(x) * 3.0)
    tq.use_implicit_args(f)(Plain(SAME))
    jax.grad(lambda p: tq.use_implicit_args(f)(p).sum())(Plain(SAME))
    alive = weakref.ref(f)
    del f
    jax.clear_caches()
    gc.collect()
    assert alive() is None


def test_a_value_that_was_used_can_be_collected() -> None:
    value = Rows(numbers(0, 4), count=3)
    alive = weakref.ref(value.row)
    transformed(lambda w: jnp.sin(w))(value)
    del value
    gc.collect()
    assert alive() is None


def test_scaled_arrays_stay_implicit_through_plumbing() -> None:
    value = Scaled(SAME, jnp.array(2.0))
    result = jax.jit(
        tq.use_implicit_args(jax.jit(lambda w: jax.checkpoint(lambda v: -v)(w)), handlers=TABLE)
    )(value)
    assert type(result) is Scaled
    close(tq.materialize(result), -SAME * 2.0)


PYTHON: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": lambda x: [10, 20, 30][x.astype(int)],
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: np.asarray(x).tolist(),
    "format": lambda x: f"{x:.2f}",
    "if": lambda x: "yes" if x else "no",
    "range": lambda x: list(range(int(x))),
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_reads_the_number_that_a_concrete_array_stands_for(name: str) -> None:
    x: Any = jnp.float32(2)
    assert transformed(PYTHON[name])(Plain(x)) == PYTHON[name](x)


def test_what_python_reads_is_said_and_can_be_forbidden() -> None:
    f = transformed(float)
    with tq.materialization("warn", Plain), pytest.warns(tq.MaterializationWarning, match="float"):
        f(Plain(jnp.float32(2)))
    with tq.materialization("error"), pytest.raises(tq.MaterializationError, match="float"):
        f(Plain(jnp.float32(2)))


@pytest.mark.parametrize(
    "name", ["bool", "int", "float", "complex", "item", "tolist", "numpy", "format"]
)
def test_no_handler_is_advised_where_python_reads_a_number(name: str) -> None:
    with tq.materialization("warn", Plain), pytest.warns(tq.MaterializationWarning) as caught:
        transformed(PYTHON[name])(Plain(jnp.float32(2)))
    (told,) = [str(each.message) for each in caught]
    assert "write a handler" not in told
    assert "call tq.materialize(...) first" in told


NUMBERS_FIRST: dict[str, Callable[[Any], Any]] = {
    "unique": jnp.unique,
    "union1d": lambda x: jnp.union1d(x, x + 1),
    "setdiff1d": lambda x: jnp.setdiff1d(x, jnp.ones_like(x)),
    "in a derivative": jax.grad(lambda x: jnp.sum(jnp.unique(x) ** 2)),
}


@pytest.mark.parametrize("name", NUMBERS_FIRST)
def test_a_function_that_needs_numbers_first_gets_them(name: str) -> None:
    x, f = jnp.array([2.0, 0.0, 1.0, 2.0]), NUMBERS_FIRST[name]
    assert_same(transformed(f)(Plain(x)), f(x))
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(transformed(f))(Plain(x))


def test_it_is_said_which_function_needs_them() -> None:
    x = Plain(jnp.array([2.0, 0.0]))
    with tq.materialization("warn", Plain), pytest.warns(tq.MaterializationWarning) as caught:
        transformed(jnp.unique)(x)
    assert ["jax.numpy.unique needs its numbers" in str(each.message) for each in caught] == [True]
    with tq.materialization("error"):
        same = transformed(jnp.array)(x)  # JAX asks only whether there are numbers
    assert type(same) is Plain


def test_under_jit_python_is_refused_as_jax_refuses_it() -> None:
    for f in (bool, float, np.asarray):
        with pytest.raises(jax.errors.JAXTypeError):
            jax.jit(transformed(f))(Plain(jnp.float32(2)))


def test_what_materialize_gives_runs_handlers_of_its_own() -> None:
    got = transformed(lambda box: -box, handlers=TABLE)(Box(Zeros(shape=(3,), dtype=jnp.float32)))
    assert type(got) is Zeros
    assert got.shape == (3,)
