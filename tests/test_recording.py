"""The record of a run: what it keeps, and that nothing is kept unless it is asked for."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import typedqax as tq
from typedqax import _call, ops
from typedqax._recording import Application, kept_record, recording


class Twice(tq.ImplicitArray):
    half: tq.ArrayValue

    def materialize(self) -> Array:
        return 2 * self.half


class Strict(tq.ImplicitArray, materialization="error"):
    half: tq.ArrayValue

    def materialize(self) -> Array:
        return 2 * self.half


def negate(x: Twice, /) -> Twice:
    return Twice(-x.half)


TABLE = tq.HandlerTable("t", ops.neg.to(negate))
TWO = Twice(jnp.ones(3))


def test_what_handlers_compute_and_what_becomes_dense_is_kept_in_order() -> None:
    with recording() as record:
        tq.use_implicit_args(lambda x: jnp.sin(-x), handlers=TABLE)(TWO)
    first, second = record.events
    assert isinstance(first, Application)
    assert (first.primitive, first.handler) == ("neg", "negate")
    assert not isinstance(second, Application)
    assert (second.primitive, second.cls, second.nbytes) == ("sin", Twice, 12)


def test_nothing_is_kept_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(_call, "Application", lambda *facts: made.append(facts))
    tq.use_implicit_args(lambda x: -x, handlers=TABLE)(TWO)
    assert kept_record() is None
    assert made == []


def test_where_a_record_is_kept_there_are_no_warnings_and_nothing_is_forbidden() -> None:
    with recording() as record:
        tq.use_implicit_args(jnp.sin)(Strict(jnp.ones(3)))
    assert [event.primitive for event in record.events] == ["sin"]


def test_what_jax_traced_before_is_traced_again() -> None:
    f: Any = jax.jit(tq.use_implicit_args(lambda x: -x, handlers=TABLE))
    f(TWO)
    with recording() as record:
        f(TWO)
    assert [event.primitive for event in record.events] == ["neg"]


def test_an_inner_record_takes_over_and_gives_back() -> None:
    f: Any = tq.use_implicit_args(lambda x: -x, handlers=TABLE)
    with recording() as outer:
        with recording() as inner:
            f(TWO)
        assert kept_record() is outer
        assert (len(outer.events), len(inner.events)) == (0, 1)
        f(TWO)
    assert len(outer.events) == 1
    assert kept_record() is None


def test_another_thread_keeps_no_record() -> None:
    found = []
    with recording():
        thread = threading.Thread(target=lambda: found.append(kept_record()))
        thread.start()
        thread.join()
    assert found == [None]


def test_a_record_ends_with_its_block_even_when_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), recording():
        _ = 1 / 0
    assert kept_record() is None


def test_a_loop_s_body_counts_once_whatever_it_takes_to_settle_its_carry() -> None:
    """Its carry becomes dense in the second round; in each, a constant meets a handler."""

    def loop(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (jnp.sin(carry) - (-w).sum(), None), x, None, length=3)

    with recording() as record:
        tq.use_implicit_args(loop, handlers=TABLE)(TWO, TWO)
    assert [event.primitive for event in record.events] == ["neg", "reduce_sum", "scan"]


def test_branches_count_once_though_they_are_joined() -> None:
    with recording() as record:
        tq.use_implicit_args(
            lambda x: jax.lax.cond(True, lambda v: -v, lambda v: v.sum() + jnp.ones(3), x),
            handlers=TABLE,
        )(TWO)
    assert sorted(event.primitive for event in record.events) == ["cond", "neg", "reduce_sum"]
