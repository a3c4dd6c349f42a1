"""What a function closes over: whether an implicit array, or a tracer, is among it."""

from __future__ import annotations

import functools
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import pytest

import typedqax as tq
from tests.implicit_world import Plain
from typedqax import ops
from typedqax._closure import _MOST_LOOKED_AT, closes_over
from typedqax._value import is_value

IMPLICIT, DENSE = Plain(jnp.ones(2)), jnp.ones(2)


class Layer:
    def __init__(self, w: Any) -> None:
        self.params = {"w": [w]}

    def __call__(self, x: Any) -> Any:
        return x + self.params["w"][0]


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: Any) -> None:
        self.w = w


def of_global_implicit(x: Any) -> Any:
    return x + IMPLICIT


def of_global_dense(x: Any) -> Any:
    return x + DENSE


def default(x: Any, w: Any = IMPLICIT) -> Any:
    return x + w


def only_keyword(x: Any, *, w: Any = IMPLICIT) -> Any:
    return x + w


def with_backward_rule(w: Any) -> Callable[[Any], Any]:
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct * jnp.sum(w * 2.0),))
    return f


def with_forward_rule(w: Any) -> Callable[[Any], Any]:
    f = jax.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda primals, tangents: (primals[0] * 1.0, tangents[0] * jnp.sum(w * 2.0)))
    return f


HELD: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "a variable": lambda w: lambda x: x + w,
    "a variable of an inner function": lambda w: lambda x: jax.jit(lambda x: x + w)(x),
    "a proxy of a dict": lambda w: functools.partial(print, MappingProxyType({"w": w})),
    "a dict of lists": lambda w: functools.partial(lambda ws, x: x + ws["w"][0], {"w": [w]}),
    "a partial": lambda w: functools.partial(jnp.add, w),
    "a callable object": Layer,
    "a method": lambda w: Layer(w).__call__,
    "an object of another function": lambda w: lambda x: Layer(w)(x),
    "what grad wraps": lambda w: jax.grad(lambda x: x @ w),
    "what jit and vmap wrap": lambda w: jax.jit(jax.vmap(lambda x: x + w)),
    "a backward rule": with_backward_rule,
    "a forward rule": with_forward_rule,
    "what the transform wraps": lambda w: tq.use_implicit_args(lambda x: x + w),
    "a tuple in a namespace": lambda w: functools.partial(print, SimpleNamespace(w=(w,))),
}


@pytest.mark.parametrize("held", HELD)
def test_an_array_is_found_in(held: str) -> None:
    assert closes_over(is_value, HELD[held](IMPLICIT))
    assert not closes_over(is_value, HELD[held](DENSE))


@pytest.mark.parametrize("ruled", [with_backward_rule, with_forward_rule])
def test_a_rule_that_closes_over_an_array_runs_its_handlers(
    ruled: Callable[[Any], Callable[[Any], Any]],
) -> None:
    def scaled(w: Plain, x: Any, /) -> Plain:
        return Plain(w.inside * x)

    table = tq.HandlerTable("scaled", ops.mul.to(scaled, commutative=True))
    f = ruled(Plain(jnp.arange(3.0)))
    implicit = tq.use_implicit_args(f, handlers=table)

    def of_all(x: Any) -> Any:
        return jnp.sum(implicit(x))

    gradient: Any = jax.grad(of_all)
    for each in (gradient, jax.jit(gradient)):
        assert each(DENSE).tolist() == [6.0, 6.0]


def test_globals_and_defaults_are_looked_at() -> None:
    assert closes_over(is_value, of_global_implicit)
    assert closes_over(is_value, lambda x: of_global_implicit(x) * 2)
    assert not closes_over(is_value, of_global_dense)
    assert closes_over(is_value, default)
    assert closes_over(is_value, only_keyword)


def test_what_holds_itself_and_what_is_not_assigned_yet_is_passed_by() -> None:
    endless: list[Any] = []
    endless.append(endless)

    def later(x: Any) -> Any:
        return x + assigned_later

    assert not closes_over(is_value, lambda: endless)
    assert not closes_over(is_value, later)
    assigned_later = IMPLICIT
    assert closes_over(is_value, later)


class Holder:
    w = IMPLICIT

    def of_the_class(self, x: Any) -> Any:
        return x + self.w

    def of_a_global(self, x: Any) -> Any:
        return x + IMPLICIT


class Plainer:
    w = DENSE

    @property
    def computed(self) -> Any:
        return DENSE


def test_classes_are_looked_into() -> None:
    assert closes_over(is_value, Holder)
    assert closes_over(is_value, lambda x: Holder().of_the_class(x))
    assert closes_over(is_value, lambda x: x + Holder.w)
    held, bare = Slotted(IMPLICIT), Slotted(DENSE)
    assert closes_over(is_value, lambda x: x + held.w)
    assert closes_over(is_value, lambda x: x + bare.w) is False
    assert closes_over(is_value, lambda x: Plainer().computed + x) is False


package_of_mine: Any = None


def test_modules_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    package, inner = ModuleType("package_of_mine"), ModuleType("package_of_mine.inner")
    package.inner, inner.w, inner.v = inner, IMPLICIT, DENSE  # type: ignore[attr-defined]  # new

    def named(x: Any) -> Any:
        return x + package_of_mine.inner.w

    def not_named(x: Any) -> Any:
        return x + package_of_mine.inner.v

    monkeypatch.setitem(globals(), "package_of_mine", package)
    assert closes_over(is_value, named)
    assert closes_over(is_value, not_named) is False


class Lazy(Mapping[str, Any]):
    """It loads what is asked of it, and knows many names."""

    __slots__ = ("loaded",)

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.loaded.append(key)
        raise OSError(key)

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Loading(list[Any]):
    """It loads what it is asked for."""

    def __iter__(self) -> Iterator[Any]:
        raise OSError


def test_no_code_of_what_it_looks_into_runs() -> None:
    lazy, loading = Lazy(), Loading([DENSE])
    assert closes_over(is_value, lambda: (lazy, loading)) is False
    assert lazy.loaded == []
    loading.append(IMPLICIT)
    assert closes_over(is_value, lambda: loading)


class Elsewhere:
    """Outside of its context it does not even say its class."""

    @property  # type: ignore[misc]  # odd on purpose
    def __class__(self) -> Any:
        raise RuntimeError

    @property
    def __dict__(self) -> Any:  # type: ignore[override]  # the same
        raise RuntimeError


class LoadedLater(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        raise ImportError(name)


ODD: dict[str, Callable[[], object]] = {
    "a proxy of what is gone": lambda: weakref.proxy(Layer(DENSE)),
    "a mock of a list": lambda: mock.Mock(spec=list),
    "a mock of a function": lambda: mock.Mock(spec=of_global_dense),
    "what has no class now": Elsewhere,
    "a module that is not loaded yet": lambda: LoadedLater("later"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_passed_by(name: str) -> None:
    odd = ODD[name]()
    assert not closes_over(is_value, lambda: odd)
    assert closes_over(is_value, lambda: (IMPLICIT, odd))


def test_a_long_list_is_not_copied() -> None:
    many = [0.0] * 1_000_000
    tracemalloc.start()
    try:
        assert closes_over(is_value, lambda: many) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # eight bytes for each would be eight times that


def test_so_much_is_looked_at_and_no_more() -> None:
    few, many = [0.0] * (_MOST_LOOKED_AT // 2), [0.0] * (_MOST_LOOKED_AT * 2)
    assert closes_over(is_value, lambda: (IMPLICIT, few))
    assert closes_over(is_value, functools.partial(print, *many, IMPLICIT)) is None
    assert closes_over(is_value, functools.partial(print, IMPLICIT, many))  # it is nearer


def test_what_is_not_found_is_one_array_from_its_first_use_on() -> None:
    hidden = iter([IMPLICIT])
    assert closes_over(is_value, lambda x: x + next(hidden)) is False
    got = tq.use_implicit_args(lambda x: x[None] + jnp.stack([next(hidden)]))(DENSE)
    assert (tq.materialize(got) == jnp.full((1, 2), 2.0)).all()
