"""How tests hold a program on implicit arrays against the same program on dense ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

import typedqax as tq
from tests.implicit_kinds import HANDLERS, KINDS, LowRank, dense, numbers

Function = Callable[..., Any]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def low_rank(rows: int = 3, columns: int = 4, seed: int = 0) -> LowRank:
    made: LowRank = KINDS["low_rank"].make(rng(seed), (rows, columns))
    return made


X = numbers(rng(10), 2, 3)
"""A dense operand for `low_rank()`."""


def use(f: Function, handlers: tq.HandlerTable | None = HANDLERS) -> Any:
    """`f` under the transform."""
    return tq.use_implicit_args(f, handlers=handlers)


def total(tree: Any) -> Any:
    """One number that every float of a tree has a share in, each another."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.dtype == jnp.float32]
    return sum((jnp.sum(jnp.sin(leaf)) for leaf in leaves), jnp.zeros((), jnp.float32))


def eager(f: Function, *args: Any) -> Any:
    return f(*args)


def jitted(f: Function, *args: Any) -> Any:
    return jax.jit(f)(*args)


def gradient(f: Function, *args: Any) -> Any:
    """The gradient in every leaf of every argument."""
    places = tuple(range(len(args)))
    return jax.grad(lambda *a: total(tq.materialize(f(*a))), places, allow_int=True)(*args)


def jitted_gradient(f: Function, *args: Any) -> Any:
    return jax.jit(lambda *a: gradient(jax.jit(f), *a))(*args)


def pushforward(f: Function, *args: Any) -> Any:
    """The derivative along a fixed direction."""

    def direction(leaf: Any) -> Any:
        if leaf.dtype == jnp.float32:
            return jnp.cos(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape)
        return np.zeros(leaf.shape, jax.dtypes.float0)

    return jax.jvp(lambda *a: tq.materialize(f(*a)), args, jax.tree.map(direction, args))


WAYS: dict[str, Callable[..., Any]] = {
    "eager": eager,
    "jit": jitted,
    "grad": gradient,
    "jit of grad of jit": jitted_gradient,
    "jvp": pushforward,
}


def assert_agrees(
    f: Function, *args: Any, way: str = "eager", handlers: tq.HandlerTable | None = HANDLERS
) -> Any:
    """What `f` gives for implicit arguments, after it is that of the dense ones."""
    got = WAYS[way](use(f, handlers), *args)
    want = WAYS[way](lambda *a: f(*dense(a)), *args)
    assert_same(dense(got) if way in ("eager", "jit") else got, want)
    return got


def assert_same(got: Any, want: Any) -> None:
    """Both have the same structure, shapes, dtypes and, to rounding, numbers."""
    got_leaves, got_tree = jax.tree.flatten(got)
    want_leaves, want_tree = jax.tree.flatten(want)
    assert got_tree == want_tree
    for one, other in zip(got_leaves, want_leaves, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype == jax.dtypes.float0:
            continue
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)  # noqa: PLW2901  # a key is its data
        kind = np.complex128 if one.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            np.asarray(one).astype(kind), np.asarray(other).astype(kind), rtol=2e-4, atol=2e-5
        )


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a jaxpr, those of inner ones too."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    for eqn in inner.eqns:
        yield eqn
        for param in jax.tree.leaves(
            list(eqn.params.values()), is_leaf=lambda x: isinstance(x, (ClosedJaxpr, Jaxpr))
        ):
            if isinstance(param, (ClosedJaxpr, Jaxpr)):
                yield from equations(param)


def staged(f: Function, *args: Any) -> Any:
    """The jaxpr of `f` under the transform."""
    return jax.make_jaxpr(use(f))(*args)


def primitives(f: Function, *args: Any) -> Counter[str]:
    """How often each primitive is staged."""
    return Counter(eqn.primitive.name for eqn in equations(staged(f, *args)))


def only(f: Function, name: str, *args: Any) -> Any:
    """The one equation of a primitive that is staged."""
    found = [eqn for eqn in equations(staged(f, *args)) if eqn.primitive.name == name]
    assert len(found) == 1
    return found[0]


def has_dense(jaxpr: Any, shape: tuple[int, ...]) -> bool:
    """Whether anything of this shape is computed."""
    return any(var.aval.shape == shape for eqn in equations(jaxpr) for var in eqn.outvars)
