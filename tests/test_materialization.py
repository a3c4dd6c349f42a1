"""Materialization: the three policies, and what the warning and the errors say."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from tests.implicit_world import Plain, close, numbers, transformed
from typedqax import ops
from typedqax._materialization import _MOST_NUMBERS, _numbers

SAME = numbers(22, 3, 4)


class Loud(tq.ImplicitArray):
    """Says when it becomes dense, as every class does by default."""

    x: Float[tq.ArrayValue, "..."]

    def materialize(self) -> Float[Array, "..."]:
        return self.x


class Quiet(tq.ImplicitArray, warn_on_materialize=False):
    x: Float[tq.ArrayValue, "..."]

    def materialize(self) -> Float[Array, "..."]:
        return self.x


class Strict(tq.ImplicitArray, materialization="error"):
    x: Float[tq.ArrayValue, "..."]

    def materialize(self) -> Float[Array, "..."]:
        return self.x


def caught_by(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return caught


def here() -> int:
    """The line that this is called on."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


# --- what is said ---------------------------------------------------------------------------------


def test_the_warning_says_what_where_how_large_why_and_what_to_do() -> None:
    line = here() + 1
    f = transformed(lambda x: jnp.sin(x))
    (warning,) = caught_by(lambda: f(Loud(SAME)))
    assert warning.category is tq.MaterializationWarning
    assert str(warning.message) == (
        f"Loud f32[3,4] became dense (48 B) for sin(Loud f32[3,4]) at {__file__}:{line}; "
        f"it is the argument x.\n"
        f"  - no handler takes these operands of `sin`\n"
        f"The numbers are the same. To avoid it, write a handler with ops.sin.to(...); to silence "
        f'it, use tq.materialization("allow") or the class keyword materialization="allow"; to '
        f'forbid it, tq.materialization("error").'
    )
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_the_warning_names_the_nearest_handlers_and_why_they_do_not_take_it() -> None:
    def vector(x: Float[Loud, "n"], /) -> Array:
        return x.x

    def square(x: Float[Loud, "n n"], /) -> Array:
        return x.x

    table = tq.HandlerTable("t", ops.neg.to(vector), ops.neg.to(square))
    (warning,) = caught_by(lambda: tq.use_implicit_args(jnp.negative, handlers=table)(Loud(SAME)))
    lines = str(warning.message).splitlines()
    assert any("vector (" in line and f"{__file__}:" in line and "rank" in line for line in lines)
    assert any("square (" in line and "axis n is 4" in line and "3" in line for line in lines)


def test_the_warning_says_which_table_to_give_where_one_has_the_handler() -> None:
    class Own(tq.ImplicitArray):
        """Of which no other table speaks."""

        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x * 1.0

    def negative(x: Own, /) -> Own:
        return Own(-x.x)

    table = tq.HandlerTable("forgotten", ops.neg.to(negative))
    (warning,) = caught_by(lambda: tq.use_implicit_args(jnp.negative)(Own(SAME)))
    text = str(warning.message)
    assert f"it is in the table 'forgotten' ({table.origin.place}), which is not installed" in text
    assert "To avoid it, give the table 'forgotten' as handlers=, or tq.install it; to" in text


def test_the_warning_says_which_handlers_declined() -> None:
    def declines(x: Loud, /) -> Array | tq.Declined:
        return tq.DECLINE

    table = tq.HandlerTable("t", ops.neg.to(declines))
    (warning,) = caught_by(lambda: tq.use_implicit_args(jnp.negative, handlers=table)(Loud(SAME)))
    assert f"declines ({__file__}:" in str(warning.message)
    assert "declined" in str(warning.message)


def test_the_warning_shows_every_operand() -> None:
    f = transformed(lambda x, w: x @ w)
    (warning,) = caught_by(lambda: f(numbers(0, 2, 3), Loud(SAME)))
    assert "for dot_general(Array f32[2,3], Loud f32[3,4]) at" in str(warning.message)


def test_the_warning_names_the_scope_that_the_user_named() -> None:
    def f(x: Array) -> Array:
        with jax.named_scope("layer"), jax.named_scope("attention"):
            return jnp.sin(x)

    (warning,) = caught_by(lambda: tq.use_implicit_args(f)(Loud(SAME)))
    assert "(in layer/attention)" in str(warning.message)


def test_there_is_one_warning_per_class_primitive_and_line() -> None:
    def f(x: Array, y: Array) -> Array:
        for _ in range(3):
            x = x + jnp.sin(y)
        return jnp.sin(x) + jnp.sin(y)

    messages = caught_by(lambda: tq.use_implicit_args(f)(SAME, Loud(SAME)))
    assert len(messages) == 2


def test_each_class_and_each_primitive_has_a_warning_of_its_own() -> None:
    class Other(Loud): ...

    def f(x: Array, y: Array) -> Any:
        return jnp.sin(x), jnp.cos(x), jnp.sin(y)

    messages = [
        str(m.message) for m in caught_by(lambda: tq.use_implicit_args(f)(Loud(SAME), Other(SAME)))
    ]
    assert [m.split(" at ")[0] for m in messages] == [
        "Loud f32[3,4] became dense (48 B) for sin(Loud f32[3,4])",
        "Loud f32[3,4] became dense (48 B) for cos(Loud f32[3,4])",
        "Other f32[3,4] became dense (48 B) for sin(Other f32[3,4])",
    ]


def test_sizes_are_shown_for_people() -> None:
    shapes = {(16,): "64 B", (1024,): "4.0 KiB", (1024, 1024): "4.0 MiB"}
    for shape, text in shapes.items():
        value = Loud(jax.ShapeDtypeStruct(shape, jnp.float32))  # type: ignore[arg-type]  # a struct
        (warning,) = caught_by(lambda v=value: jax.eval_shape(tq.use_implicit_args(jnp.sin), v))  # type: ignore[misc]  # a default binds it
        assert f"became dense ({text})" in str(warning.message)


def test_the_warning_comes_again_when_a_jitted_function_is_traced_again_from_a_cache() -> None:
    inner = jax.jit(lambda x: jnp.sin(x))
    traced_anew = lambda: jax.make_jaxpr(lambda x: tq.use_implicit_args(inner)(x))(Loud(SAME))
    first, second = caught_by(traced_anew), caught_by(traced_anew)
    assert [str(m.message) for m in first] == [str(m.message) for m in second]
    assert len(first) == 1


def test_the_warning_in_an_inner_jit_names_the_line_inside() -> None:
    def body(x: Array) -> Array:
        return jnp.sin(x)

    line = body.__code__.co_firstlineno + 1
    (warning,) = caught_by(lambda: tq.use_implicit_args(jax.jit(body))(Loud(SAME)))
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_a_call_with_very_many_operands_is_shown_by_the_first() -> None:
    values = [Loud(SAME) for _ in range(300)]
    texts = {str(w.message) for w in caught_by(lambda: transformed(jnp.concatenate)(values))}
    assert texts
    for text in texts:
        assert len(text) < 4000
        assert "Loud f32[3,4], and " in text
        assert " more) at " in text


def test_many_reasons_are_cut_where_no_reader_would_go_on() -> None:
    def named(number: int) -> Any:
        def handler(x: Loud, /) -> Array | tq.Declined:
            return tq.DECLINE

        handler.__name__ = f"handler_with_a_rather_long_name_{number}"
        return handler

    rules = [ops.neg.to(named(number), precedence=number) for number in range(60)]
    f = transformed(jnp.negative, handlers=tq.HandlerTable("t", *rules))
    (warning,) = caught_by(lambda: f(Loud(SAME)))
    assert len(str(warning.message)) < 4000


def test_no_array_contents_are_shown() -> None:
    (warning,) = caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(jnp.full(3, 7.125))))
    assert "7.125" not in str(warning.message)


# --- the three policies ---------------------------------------------------------------------------


def test_a_class_that_allows_it_says_nothing() -> None:
    assert caught_by(lambda: tq.use_implicit_args(jnp.sin)(Quiet(SAME))) == []


def test_warn_on_materialize_false_is_inherited() -> None:
    class Sub(Quiet): ...

    assert caught_by(lambda: tq.use_implicit_args(jnp.sin)(Sub(SAME))) == []


def test_a_subclass_may_say_otherwise() -> None:
    class Sub(Quiet, materialization="warn"): ...

    assert len(caught_by(lambda: tq.use_implicit_args(jnp.sin)(Sub(SAME)))) == 1


def test_allow_silences_a_block() -> None:
    with tq.materialization("allow"):
        assert caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME))) == []
    assert len(caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME)))) == 1


def test_error_forbids_it_in_a_block_and_says_what_to_do() -> None:
    line = here() + 1
    f = transformed(lambda x: jnp.sin(x))
    with tq.materialization("error"), pytest.raises(tq.MaterializationError) as caught:
        f(Loud(SAME))
    assert str(caught.value) == (
        f"Loud f32[3,4] would have become dense (48 B) for sin(Loud f32[3,4]) at {__file__}:{line}"
        f"; it is the argument x.\n  - no handler takes these operands of `sin`\n"
        f'This is inside materialization("error"): write a handler with ops.sin.to(...), or let it '
        f"pass with materialization(\"allow\", Loud) or allow={{'sin'}}."
    )


def test_error_forbids_what_the_class_allows() -> None:
    with tq.materialization("error"), pytest.raises(tq.MaterializationError):
        tq.use_implicit_args(jnp.sin)(Quiet(SAME))


def test_error_is_raised_at_trace_time() -> None:
    with tq.materialization("error"), pytest.raises(tq.MaterializationError):
        jax.eval_shape(jax.jit(tq.use_implicit_args(jnp.sin)), Loud(SAME))


def test_error_forbids_it_inside_inner_functions_too() -> None:
    bodies: list[Callable[[Array], Any]] = [
        jax.jit(jnp.sin),
        jax.checkpoint(jnp.sin),
        lambda x: lax.scan(lambda c, _: (c, jnp.sin(x)), 0.0, None, length=2),
        lambda x: lax.cond(True, jnp.sin, jnp.cos, x),
        jax.vmap(jnp.sin),
        jax.grad(lambda x: jnp.sum(jnp.sin(x))),
        jax.nn.relu,
        lambda x: np.asarray(tq.use_implicit_args(jnp.sin)(x)),
    ]
    for body in bodies:
        with tq.materialization("error"), pytest.raises(tq.MaterializationError):
            tq.use_implicit_args(body)(Loud(SAME))


def test_warn_says_what_a_class_allows_when_the_block_names_it() -> None:
    with tq.materialization("warn", Quiet):
        assert len(caught_by(lambda: tq.use_implicit_args(jnp.sin)(Quiet(SAME)))) == 1


def test_a_block_about_one_class_leaves_others() -> None:
    with tq.materialization("error", Loud):
        tq.use_implicit_args(jnp.sin)(Quiet(SAME))
        with pytest.raises(tq.MaterializationError):
            tq.use_implicit_args(jnp.sin)(Loud(SAME))


def test_a_block_about_a_class_is_about_its_subclasses() -> None:
    class Sub(Loud): ...

    with tq.materialization("error", Loud), pytest.raises(tq.MaterializationError):
        tq.use_implicit_args(jnp.sin)(Sub(SAME))


def test_a_block_may_let_named_primitives_pass() -> None:
    with tq.materialization("error", allow={"sin"}):
        caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME)))
        with pytest.raises(tq.MaterializationError):
            tq.use_implicit_args(jnp.cos)(Loud(SAME))


def test_a_block_may_let_small_arrays_pass() -> None:
    with tq.materialization("error", larger_than=48):
        caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME)))
        with pytest.raises(tq.MaterializationError):
            tq.use_implicit_args(jnp.sin)(Loud(numbers(0, 13)))


def test_the_innermost_block_that_applies_decides() -> None:
    with tq.materialization("error"):
        with tq.materialization("allow"):
            assert caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME))) == []
        with tq.materialization("allow", Quiet), pytest.raises(tq.MaterializationError):
            tq.use_implicit_args(jnp.sin)(Loud(SAME))


def test_the_policy_may_decorate_a_function() -> None:
    @tq.materialization("error")
    def f() -> Any:
        return tq.use_implicit_args(jnp.sin)(Loud(SAME))

    for _ in range(2):
        with pytest.raises(tq.MaterializationError):
            f()
    assert len(caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME)))) == 1


def test_a_policy_ends_with_its_block_even_when_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), tq.materialization("error"):
        _ = 1 / 0
    assert len(caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME)))) == 1


def test_one_policy_object_can_be_entered_again_inside_itself() -> None:
    policy = tq.materialization("allow")
    with policy:
        with policy:
            pass
        assert caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME))) == []
    assert len(caught_by(lambda: tq.use_implicit_args(jnp.sin)(Loud(SAME)))) == 1


def test_a_policy_is_seen_through_the_cache_of_a_jitted_function() -> None:
    f = tq.use_implicit_args(jax.jit(jnp.sin))
    caught_by(lambda: f(Loud(SAME)))
    with tq.materialization("error"), pytest.raises(tq.MaterializationError):
        f(Loud(SAME))
    with tq.materialization("allow"):
        assert caught_by(lambda: f(Loud(SAME))) == []


@pytest.mark.without_leak_checks  # it counts what is traced anew
def test_error_holds_where_an_outer_jit_compiled_before_and_costs_one_trace() -> None:
    traces = []

    @jax.jit
    def step(x: Any) -> Any:
        traces.append(x)
        return transformed(jnp.sin)(x)

    quiet, loud = Quiet(SAME), Loud(SAME)
    step(quiet)
    for allow in ({"sin"}, {"sin"}, {"cos"}, {"cos"}):
        with tq.materialization("error", allow=allow):
            if "sin" in allow:
                step(quiet)
            else:
                with pytest.raises(tq.MaterializationError, match="for sin"):
                    step(quiet)
    assert len(traces) == 1 + 1 + 2  # a trace that raised leaves nothing to use again
    with tq.materialization("allow"):
        step(quiet)
    step(quiet)
    assert len(traces) == 4
    with tq.materialization("error", Loud):
        step(quiet)
        with pytest.raises(tq.MaterializationError, match="Loud"):
            step(loud)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no such policy": (
        lambda: tq.materialization("never"),  # type: ignore[arg-type]  # that is the mistake
        "materialization('never'): the policy comes first, and is one of 'warn', 'allow', 'error'.",
    ),
    "a class first": (
        lambda: tq.materialization(Loud),  # type: ignore[arg-type]  # as above
        "materialization(Loud): the policy comes first, and is one of 'warn', 'allow', 'error'.",
    ),
    "another class": (
        lambda: tq.materialization("allow", int),
        "materialization('allow', int): what follows the policy are subclasses of ImplicitArray.",
    ),
    "an instance": (
        lambda: tq.materialization("allow", Loud(SAME)),  # type: ignore[arg-type]  # as above
        (
            "materialization('allow', <Loud>): what follows the policy are subclasses of "
            "ImplicitArray."
        ),
    ),
    "a string": (
        lambda: tq.materialization("allow", allow="sin"),
        "allow='sin': pass a set of names of primitives, {'sin'}.",
    ),
    "one op": (
        lambda: tq.materialization("allow", allow=ops.sin),  # type: ignore[arg-type]  # as above
        "allow=<UnaryOp>: pass a set of names of primitives, {'sin'}.",
    ),
    "a misspelt primitive": (
        lambda: tq.materialization("error", allow={"tanhh"}),
        (
            "allow={'tanhh'}: there is no primitive of that name; did you mean 'tanh' or "
            "'atanh' or 'tan'? (One that JAX does not know by its name is given itself.)"
        ),
    ),
    "no primitive at all": (
        lambda: tq.materialization("error", allow={"qqqqqq"}),
        (
            "allow={'qqqqqq'}: there is no primitive of that name. (One that JAX does not know by "
            "its name is given itself.)"
        ),
    ),
    "no name": (
        lambda: tq.materialization("error", allow=[SAME]),  # type: ignore[list-item]  # as above
        "allow={<ArrayImpl>, ...}: primitives are given by their names, or as ops, or themselves.",
    ),
    "a size in words": (
        lambda: tq.materialization("error", larger_than="1 MB"),  # type: ignore[arg-type]  # as above
        (
            "materialization(..., larger_than='1 MB'): give a number of bytes, as in "
            "larger_than=1 << 20."
        ),
    ),
}


@pytest.mark.parametrize(("use", "text"), WRONG.values(), ids=WRONG.keys())
def test_a_policy_that_cannot_be_is_refused(use: Callable[[], Any], text: str) -> None:
    with pytest.raises(tq.UsageError) as caught:
        use()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(ops.sin, id="op"),
        pytest.param(lax.sin_p, id="primitive"),
        pytest.param("sin", id="name"),
    ],
)
def test_primitives_may_be_named_by_ops_and_by_themselves(named: Any) -> None:
    with tq.materialization("error", allow={named}):
        assert len(caught_by(lambda: transformed(jnp.sin)(Loud(SAME)))) == 1


def test_a_group_of_ops_may_pass() -> None:
    with tq.materialization("error", allow=ops.elementwise_unary):
        assert len(caught_by(lambda: transformed(jnp.sin)(Loud(SAME)))) == 1
        with pytest.raises(tq.MaterializationError):
            transformed(jnp.add)(Loud(SAME), SAME)


def test_what_asks_for_numbers_may_be_named_too() -> None:
    with tq.materialization("error", allow={"numpy.asarray"}):
        assert len(caught_by(lambda: np.asarray(Loud(SAME)))) == 1


def test_a_function_of_jax_that_asks_for_numbers_may_be_named() -> None:
    with tq.materialization("error", allow={"jax.numpy.unique"}):
        assert len(caught_by(lambda: transformed(jnp.unique)(Loud(SAME)))) == 1
    with pytest.raises(tq.UsageError):
        tq.materialization("error", allow={"jax.numpy.uniqe"})


@pytest.mark.parametrize("name", ["implicit_array", "materialize"])
def test_what_nothing_becomes_dense_for_cannot_be_named(name: str) -> None:
    with pytest.raises(tq.UsageError):
        tq.materialization("error", allow={name})


@pytest.mark.without_leak_checks  # it compiles, and then uses what was compiled
@pytest.mark.parametrize("named", [Strict, tq.ImplicitArray], ids=["itself", "its base"])
def test_what_was_compiled_where_a_class_may_become_dense_is_not_used_where_it_must_not(
    named: type,
) -> None:
    f = jax.jit(transformed(jnp.sin))
    with tq.materialization("allow", named):
        f(Strict(SAME))
    with pytest.raises(tq.MaterializationError):
        f(Strict(SAME))


@pytest.mark.without_leak_checks  # it compiles, and then uses what was compiled
def test_a_class_that_is_defined_in_a_block_is_told_apart_too() -> None:
    f = jax.jit(transformed(jnp.sin))
    with tq.materialization("allow", Loud):

        class Late(Loud, materialization="error"): ...

        f(Late(SAME))
    with pytest.raises(tq.MaterializationError):
        f(Late(SAME))


def test_a_primitive_that_only_a_table_knows_may_be_named() -> None:
    known = jax.extend.core.Primitive("known_to_a_table_only")
    unknown = jax.extend.core.Primitive("known_to_nobody")

    @tq.primitive_handler(known)
    def handle(primitive: Any, x: Loud) -> Loud:
        return x

    tq.materialization("error", allow={"known_to_a_table_only", unknown})
    with pytest.raises(tq.UsageError):
        tq.materialization("error", allow={"known_to_nobody"})


@pytest.mark.without_leak_checks  # it counts what is traced anew
def test_many_policies_are_told_apart_and_not_all_remembered() -> None:
    traces = []

    @jax.jit
    def step(x: Any) -> Any:
        traces.append(x)
        return transformed(jnp.sin)(x)

    for size in range(_MOST_NUMBERS + 9):
        with tq.materialization("error", larger_than=1 << 20 | size):
            pass
    assert len(_numbers) <= _MOST_NUMBERS
    with tq.materialization("error", larger_than=1 << 20):  # one that is no longer remembered
        step(Quiet(SAME))
        step(Quiet(SAME))
    assert len(traces) == 1
    with tq.materialization("error"), pytest.raises(tq.MaterializationError):
        step(Quiet(SAME))


def test_each_thread_has_its_own_policy() -> None:
    """One that starts inside a block starts without it, as with all of JAX's own contexts."""
    seen: dict[str, Any] = {}
    inside, checked = threading.Barrier(2), threading.Barrier(2)

    def other() -> None:
        with tq.materialization("allow"):
            inside.wait(10)
            checked.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    seen["here"] = len(caught_by(lambda: transformed(jnp.sin)(Loud(SAME))))
    checked.wait(10)
    thread.join()
    with tq.materialization("error"), concurrent.futures.ThreadPoolExecutor(1) as pool:
        seen["there"] = len(
            pool.submit(caught_by, lambda: transformed(jnp.sin)(Loud(SAME))).result()
        )
    assert seen == {"here": 1, "there": 1}


def test_a_thread_that_is_given_the_context_of_a_block_is_not_in_the_block() -> None:
    """Else it would use there what JAX compiled without a word, and refuse to compile it."""
    f = transformed(jnp.sin)
    compiled = jax.jit(f)
    with tq.materialization("allow"):
        compiled(Loud(SAME))

    async def both() -> list[int]:
        with tq.materialization("error"):
            return [
                len(await asyncio.to_thread(caught_by, functools.partial(g, Loud(SAME))))
                for g in (f, jax.jit(lambda x: f(x) + 1))
            ]

    assert asyncio.run(both()) == [1, 1]


def test_what_another_coroutine_compiled_meanwhile_does_not_pass_unseen() -> None:
    compiled = jax.jit(transformed(jnp.cos))
    began, refused = asyncio.Event(), []

    async def attempt() -> None:
        try:
            compiled(Loud(SAME))
        except tq.MaterializationError:
            refused.append(asyncio.current_task().get_name())  # type: ignore[union-attr]  # there is one

    async def forbids() -> None:
        with tq.materialization("error"):
            began.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await attempt()

    async def meanwhile() -> None:
        await began.wait()
        await attempt()

    async def both() -> None:
        await asyncio.gather(
            asyncio.create_task(forbids(), name="forbids"),
            asyncio.create_task(meanwhile(), name="meanwhile"),
        )

    asyncio.run(both())
    assert "forbids" in refused


def test_a_block_that_ends_in_another_thread_says_so() -> None:
    policy = tq.materialization("error")

    def other() -> None:
        with pytest.raises(tq.UsageError, match="ends in another thread than it began in"):
            policy.__exit__(None, None, None)

    with policy, concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(other).result()
    assert len(caught_by(lambda: transformed(jnp.sin)(Loud(SAME)))) == 1


# --- classes that must not become dense -----------------------------------------------------------


def test_a_strict_class_names_the_handler_to_write() -> None:
    with pytest.raises(tq.MaterializationError) as caught:
        tq.use_implicit_args(jnp.sin)(Strict(SAME))
    text = str(caught.value)
    assert text.startswith(
        "Strict f32[3,4] would have become dense (48 B) for sin(Strict f32[3,4])"
    )
    assert text.splitlines()[-1] == (
        'Strict is defined with materialization="error", since its dense form loses meaning: write '
        "a handler with ops.sin.to(...), or call tq.materialize(...) where dense is meant."
    )


def test_a_strict_class_refuses_in_a_block_that_allows_all() -> None:
    with tq.materialization("allow"), pytest.raises(tq.MaterializationError):
        tq.use_implicit_args(jnp.sin)(Strict(SAME))


def test_a_strict_class_becomes_dense_in_a_block_that_names_it() -> None:
    with tq.materialization("allow", Strict):
        close(tq.use_implicit_args(jnp.negative)(Strict(SAME)), -SAME)


def test_materialize_asked_for_is_always_allowed_and_never_said() -> None:
    with tq.materialization("error"):
        assert caught_by(lambda: close(tq.materialize(Loud(SAME)), SAME)) == []
        close(tq.materialize(Strict(SAME)), SAME)
        close(Strict(SAME).materialize(), SAME)
        f = transformed(lambda x: tq.materialize(x) * 2.0)
        close(f(Loud(SAME)), SAME * 2.0)


def test_materialize_asked_for_inside_the_transform_is_never_said() -> None:
    f = transformed(lambda x: tq.materialize(x) * x.materialize())
    assert caught_by(lambda: close(f(Loud(SAME)), SAME * SAME)) == []
    close(f(Strict(SAME)), SAME * SAME)


def _scalar_like(x: Any) -> Any:
    cls: Any = type(x)
    return cls(SAME[0, 0])


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "float": lambda x: float(x[0, 0]) if not tq.is_implicit(x) else float(_scalar_like(x)),
    "item": lambda x: x.item(0),
    "tolist": lambda x: x.tolist(),
    "format": lambda x: f"{_scalar_like(x):.2f}",
    "operator": lambda x: x + 1.0,
    "method": lambda x: x.sum(),
    "indexing": lambda x: x[0],
}


@pytest.mark.parametrize("use", NUMBERS.values(), ids=NUMBERS.keys())
def test_python_that_asks_for_the_numbers_is_told_or_refused(use: Callable[[Any], Any]) -> None:
    assert len(caught_by(lambda: use(Loud(SAME)))) == 1
    with pytest.raises(tq.MaterializationError):
        use(Strict(SAME))


def test_joins_say_that_branches_disagree() -> None:
    def negate(x: Loud, /) -> Loud:
        return Loud(-x.x)

    f = transformed(
        lambda x: lax.cond(True, lambda v: -v, lambda v: SAME, x),
        handlers=tq.HandlerTable("t", ops.neg.to(negate)),
    )
    (warning,) = caught_by(lambda: f(Loud(SAME)))
    assert "for cond(" in str(warning.message)
    assert "the branches give different types" in str(warning.message)


def test_a_strict_class_runs_through_custom_rules_by_its_handlers() -> None:
    def maximum(x: Strict, y: Float[Array, "..."], /) -> Strict:
        return Strict(jnp.maximum(x.x, y))

    table = tq.HandlerTable("t", ops.max.to(maximum))
    result = tq.use_implicit_args(jax.nn.relu, handlers=table)(Strict(SAME))
    assert type(result) is Strict
    close(tq.materialize(result), jax.nn.relu(SAME))


def _tripled(kind: str) -> Callable[[Any], Any]:
    """The negative, with a rule that says three times its derivative."""

    def negative(x: Any) -> Any:
        return -x

    if kind == "custom_jvp":
        f = jax.custom_jvp(negative)
        f.defjvp(lambda primals, tangents: (-primals[0], -3.0 * tangents[0]))
        return f
    g = jax.custom_vjp(negative)
    g.defvjp(lambda x: (-x, None), lambda _, ct: (-3.0 * ct,))
    return g


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("jit", [False, True], ids=["", "jit"])
def test_a_derivative_that_leaves_a_custom_rule_unused_says_so(kind: str, jit: bool) -> None:
    def negative(x: Strict, /) -> Strict:
        return Strict(-x.x)

    ruled = jax.jit(_tripled(kind)) if jit else _tripled(kind)
    f = transformed(lambda x: ruled(x), handlers=tq.HandlerTable("t", ops.neg.to(negative)))

    def loss(numbers: Any) -> Any:
        return f(Strict(numbers)).x.sum()

    close(loss(SAME), -SAME.sum())  # no derivative, nothing to say
    with pytest.warns(tq.CustomRuleWarning) as caught:
        close(jax.grad(loss)(SAME), -jnp.ones_like(SAME))
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    assert f"is not that of its {kind} rule but of the handlers that ran" in text
    assert "Strict is defined with materialization=" in text
    assert "Where the rule matters, call tq.materialize(...)" in text

    def by_the_rule(numbers: Any) -> Any:
        with tq.materialization("allow", Strict):
            return f(Strict(numbers)).sum()

    close(jax.grad(by_the_rule)(SAME), jnp.full_like(SAME, -3.0))


# --- places ---------------------------------------------------------------------------------------


def negate_loud(x: Loud, /) -> Loud:
    return Loud(-x.x)


NEGATES = tq.HandlerTable("negates", ops.neg.to(negate_loud))


@jax.custom_jvp
def negated(x: Array) -> Array:
    return -x


negated.defjvp(lambda xs, ts: (-xs[0], -ts[0]))


@jax.custom_vjp
def negated_back(x: Array) -> Array:
    return -x


negated_back.defvjp(lambda x: (-x, x), lambda x, g: (-g * jnp.cos(x),))

ON_ONE_LINE: dict[str, Callable[[Any], Any]] = {
    "branches": lambda x: lax.cond(True, lambda v: -v, lambda v: SAME, x),
    "carry of scan": lambda x: lax.scan(lambda c, _: (c * 2.0, None), x, None, length=2)[0],
    "carry of while": lambda x: lax.while_loop(lambda c: c[0, 0] > 9.0, lambda c: c * 2.0, x),
    "stacked by scan": lambda x: lax.scan(lambda c, _: (c, -x), 0.0, None, length=2)[1],
    "scanned": lambda x: lax.scan(lambda c, row: (c, row + 1.0), 0.0, x)[1],
    "custom_jvp": lambda x: negated(x),
    "custom_vjp": lambda x: negated_back(x),
    "relu": lambda x: jax.nn.relu(x),
    "vmap of branches": jax.vmap(lambda x: lax.cond(True, lambda v: -v, lambda v: SAME[0], x)),
}
AROUND: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "alone": lambda f: transformed(f, handlers=NEGATES),
    "jit inside": lambda f: transformed(lambda x: jax.jit(f)(x), handlers=NEGATES),
    "jit outside": lambda f: jax.jit(transformed(f, handlers=NEGATES)),
    "checkpoint": lambda f: transformed(jax.checkpoint(f), handlers=NEGATES),
    "grad outside": lambda f: jax.grad(
        lambda x: tq.materialize(transformed(f, handlers=NEGATES)(x)).sum()
    ),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("inner", ON_ONE_LINE)
def test_what_inner_functions_make_dense_is_said_with_a_line_of_the_user_s(
    inner: str, around: str
) -> None:
    f = ON_ONE_LINE[inner]
    if (inner, around) == ("carry of while", "grad outside"):  # JAX has no such derivative
        around = "alone"
    for warning in caught_by(lambda: AROUND[around](f)(Loud(SAME))):
        assert warning.filename == __file__
        assert f" at {__file__}:{warning.lineno}" in str(warning.message)


def test_a_function_with_a_rule_of_its_own_is_named_as_what_it_is() -> None:
    (one,) = caught_by(lambda: transformed(negated_back, handlers=NEGATES)(Loud(SAME)))
    assert "for custom_vjp_call(Loud f32[3,4]) at" in str(one.message)
    (two,) = caught_by(lambda: transformed(negated, handlers=NEGATES)(Loud(SAME)))
    assert "for custom_jvp_call(Loud f32[3,4]) at" in str(two.message)


def test_a_carry_that_becomes_dense_says_what_made_it_so() -> None:
    f = transformed(lambda x: lax.scan(lambda c, _: (c * 2.0, None), x, None, length=2)[0])
    (warning,) = caught_by(lambda: f(Loud(SAME)))
    lines = str(warning.message).splitlines()
    assert lines[1] == "  - the loop's body gives another type than it takes"
    assert lines[2].startswith(
        "  - in it, Loud f32[3,4] became dense (48 B) for mul(Loud f32[3,4], Array f32[]) at "
    )


def contract(
    x: Float[Loud, "m n"], y: Float[Array, "n k"], /, **params: Any
) -> Array | tq.Declined:
    if params["dimension_numbers"] != (((1,), (0,)), ((), ())):
        return tq.DECLINE
    return ops.dot_general.bind(x.x, y, **params)


def test_the_backward_pass_names_the_forward_line_and_what_was_transposed() -> None:
    line = here() + 1
    loss = lambda w, x: jnp.sum(jnp.square(w @ x))
    f = transformed(
        lambda w, x: jax.grad(loss, argnums=1)(w, x),
        handlers=tq.HandlerTable("t", ops.dot_general.to(contract)),
    )
    (warning,) = caught_by(lambda: f(Loud(SAME), numbers(0, 4, 2)))
    first, second, *_ = str(warning.message).splitlines()
    assert "for dot_general(Array f32[3,2], Loud f32[3,4])" in first or "dot_general(" in first
    assert f" from the transpose of dot_general at {__file__}:{line}; " in first
    assert "contract (" in second
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_the_backward_pass_of_an_inner_jit_names_the_line_inside() -> None:
    line = here() + 1
    product = jax.jit(lambda w, x: jnp.square(w @ x))
    f = transformed(
        lambda w, x: jax.grad(lambda w, x: jnp.sum(product(w, x)), argnums=1)(w, x),
        handlers=tq.HandlerTable("t", ops.dot_general.to(contract)),
    )
    (warning,) = caught_by(lambda: f(Loud(SAME), numbers(0, 4, 2)))
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert "it is the argument w" in str(warning.message)


def test_scopes_are_the_user_s_own_under_derivatives() -> None:
    def f(x: Array) -> Array:
        with jax.named_scope("layer"):
            return jnp.sum(jnp.sin(x))

    texts = [str(w.message) for w in caught_by(lambda: transformed(jax.grad(f))(Loud(SAME)))]
    assert [re.findall(r"\(in [^;]*\);", text) for text in texts] == [["(in layer);"]] * len(texts)
    assert texts


def test_a_derivative_rule_in_a_remembered_body_says_what_it_makes_dense() -> None:
    f = transformed(lambda x: jax.jit(lambda v: negated_back(v))(x), handlers=NEGATES)
    texts = [str(w.message) for w in caught_by(lambda: jax.grad(lambda x: f(x).sum())(Loud(SAME)))]
    assert any("for cos(Loud f32[3,4])" in text for text in texts)
    with tq.materialization("allow"), tq.materialization("error", allow={"custom_vjp_call"}):
        for _ in range(2):
            with pytest.raises(tq.MaterializationError, match=r"for cos\(Loud"):
                jax.grad(lambda x: f(x).sum())(Loud(SAME))


def test_what_was_refused_once_is_refused_again() -> None:
    refused = []

    def f(x: Array) -> Array:
        for _ in range(2):
            try:
                jnp.sin(x)
            except tq.MaterializationError as error:
                refused.append(str(error))
        return SAME

    with tq.materialization("error"):
        transformed(f)(Loud(SAME))
    assert len(refused) == 2


# --- before the last resort -----------------------------------------------------------------------


def test_any_primitive_is_asked_before_materialization() -> None:
    seen = []

    def last(op: ops.AnyOp, x: Loud, /, **params: Any) -> Any:
        seen.append(op.name)
        return op.bind(x.x, **params)

    table = tq.HandlerTable("t", ops.any_primitive.to(last))
    f = transformed(lambda x: (jnp.sin(x), x.sum()), handlers=table)
    with tq.materialization("error"):
        close(f(Loud(SAME)), (jnp.sin(SAME), SAME.sum()))
    assert seen == ["sin", "reduce_sum"]


def test_any_primitive_comes_after_the_primitive_s_own_handlers() -> None:
    ran = []

    def last(op: ops.AnyOp, x: Loud, /, **params: Any) -> Any:
        ran.append("any")
        return op.bind(x.x, **params)

    def own(x: Loud, /) -> Any | tq.Declined:
        ran.append("own")
        return tq.DECLINE

    table = tq.HandlerTable("t", ops.any_primitive.to(last), ops.neg.to(own))
    tq.use_implicit_args(jnp.negative, handlers=table)(Loud(SAME))
    assert ran == ["own", "any"]


OF_JAX: dict[str, Callable[[Any], Any]] = {
    "eager": transformed(jnp.tanh),
    "jit": jax.jit(transformed(jnp.tanh)),
    "jit of grad": jax.jit(jax.grad(transformed(jnp.sum))),
}


@pytest.mark.parametrize("name", OF_JAX)
def test_a_function_of_jax_itself_is_placed_where_it_is_called(name: str) -> None:
    with tq.materialization("warn", Plain), pytest.warns(tq.MaterializationWarning) as caught:
        OF_JAX[name](Plain(jnp.ones(2)))
    assert {each.filename for each in caught} == {__file__}
