"""The law of the library: implicit arrays anywhere in a program give what dense ones give.

`python -m tests.laws 2000` looks for programs that break it; the suite looks at a few. Another law
is looked at by its name, as in `python -m tests.laws 2000 0 refusals`.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import typedqax as tq
from tests.implicit_kinds import HANDLERS, KINDS, dense, numbers
from tests.programs import (
    NOT_BATCHED,
    NOT_LINEARIZED,
    NOT_REVERSIBLE,
    REFUSED,
    Body,
    body,
    has_none_of,
)

SHAPES = [(), (3,), (2,), (2, 3), (3, 3), (3, 2), (2, 3, 3)]
DENSE = "dense"


@dataclass(frozen=True)
class Case:
    """A program, what it is applied to, and the transformation around it.

    Attributes:
        program: what is computed.
        arguments: kind and shape of each argument; `DENSE` is a dense one.
        transformation: its name in `OUTSIDE`.
        handlers: whether there are any.
    """

    program: Body
    arguments: tuple[tuple[str, tuple[int, ...]], ...]
    transformation: str
    handlers: bool

    def __repr__(self) -> str:
        return (
            f"Case(\n  {self.program},\n  {self.arguments},\n  {self.transformation!r}, "
            f"handlers={self.handlers},\n)"
        )


class _Drawn:
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def pick(self, options: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(options))


@st.composite
def cases(draw: Any, size: int = 5, depth: int = 2) -> Case:
    pick = _Drawn(draw).pick
    arguments = []
    for place in range(pick([2, 3])):
        shape = pick(SHAPES)
        kinds = [name for name, kind in KINDS.items() if len(shape) in kind.ranks]
        arguments.append((pick(kinds if place == 0 else [DENSE, *kinds]), shape))
    avals = [jax.ShapeDtypeStruct(shape, jnp.float32) for _, shape in arguments]
    program = body(_Drawn(draw), avals, None, size, depth)
    names = [name for name in OUTSIDE if has_none_of(REFUSING.get(name, ()), program)]
    return Case(program, tuple(arguments), pick(names), pick([True, False]))


# --- transformations outside ---------------------------------------------------------------------


def _floats(tree: Any) -> Any:
    """The part of a tree that derivatives exist for, summed."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.dtype == jnp.float32]
    return sum((jnp.sum(jnp.sin(leaf)) for leaf in leaves), jnp.float32(0.0))


def _tangents(leaf: Any) -> Any:
    if leaf.dtype == jnp.float32:
        return jnp.cos(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape)
    return np.zeros(leaf.shape, jax.dtypes.float0)


def _plain(f: Any, *args: Any) -> Any:
    return f(*args)


def _jit(f: Any, *args: Any) -> Any:
    return jax.jit(f)(*args)


def _grad(f: Any, *args: Any) -> Any:
    places = tuple(range(len(args)))
    return jax.grad(lambda *a: _floats(f(*a)), argnums=places, allow_int=True)(*args)


def _jit_grad(f: Any, *args: Any) -> Any:
    return jax.jit(functools.partial(_grad, jax.jit(f)))(*args)


def _jvp(f: Any, *args: Any) -> Any:
    return jax.jvp(f, args, jax.tree.map(_tangents, args))


def _linearize(f: Any, *args: Any) -> Any:
    out, push = jax.linearize(lambda *a: _floats(f(*a)), *args)
    return out, push(*jax.tree.map(_tangents, args))


def _remat_grad(f: Any, *args: Any) -> Any:
    return _grad(jax.checkpoint(f), *args)


def _vmap(f: Any, *args: Any) -> Any:
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), args)
    return jax.vmap(f)(*stacked)


def _vmap_last(f: Any, *args: Any) -> Any:
    """Only what is dense is mapped."""
    axes = tuple(None if tq.is_implicit(a) else 0 for a in args)
    if all(axis is None for axis in axes):
        return f(*args)
    stacked = [
        a if axis is None else jnp.stack([a, 2 * a]) for a, axis in zip(args, axes, strict=True)
    ]
    return jax.vmap(f, in_axes=axes)(*stacked)


def _scan(f: Any, *args: Any) -> Any:
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), args)
    return jax.lax.scan(lambda _, a: (None, f(*a)), None, stacked)[1]


def _hvp(f: Any, *args: Any) -> Any:
    """A derivative of a derivative, in forward mode."""
    push = jax.jit(functools.partial(_jvp, functools.partial(_grad, f)))
    return push(*args)


def _vmap_grad(f: Any, *args: Any) -> Any:
    return _vmap(functools.partial(_grad, f), *args)


def _scan_grad(f: Any, *args: Any) -> Any:
    return _scan(functools.partial(_grad, jax.checkpoint(f)), *args)


OUTSIDE: dict[str, Callable[..., Any]] = {
    "plain": _plain,
    "jit": _jit,
    "grad": _grad,
    "jit_grad": _jit_grad,
    "jvp": _jvp,
    "linearize": _linearize,
    "remat_grad": _remat_grad,
    "vmap_dense": _vmap_last,
    "vmap": _vmap,
    "scan": _scan,
    "hvp": _hvp,
    "vmap_grad": _vmap_grad,
    "scan_grad": _scan_grad,
}
REVERSE = {"grad", "jit_grad", "remat_grad", "hvp", "vmap_grad", "scan_grad"}
DERIVATIVES = REVERSE | {"jvp", "linearize"}
BATCHED = {"vmap", "scan", "vmap_grad", "scan_grad"}
REFUSING = (
    dict.fromkeys(REVERSE, NOT_REVERSIBLE)
    | {"linearize": NOT_LINEARIZED, "vmap_grad": NOT_REVERSIBLE | NOT_BATCHED}
    | dict.fromkeys(("vmap", "vmap_dense"), NOT_BATCHED)
)
"""The operations that JAX refuses under a transformation.

JAX alone takes some where arrays of zeros are constants; but an array without leaves that was
mapped or differentiated is none.
"""
MOST = 0.8
"""The part of all programs that has to be compared."""


def check(case: Case) -> bool:
    """The program on implicit arrays gives what it gives on the dense ones.

    False is returned where there was nothing to compare with: not even JAX alone runs it.

    Raises:
        AssertionError: it does not.
    """
    rng = np.random.default_rng(0)
    args = []
    for kind, shape in case.arguments:
        if kind != DENSE and case.transformation in BATCHED and not KINDS[kind].batches:
            kind = DENSE  # noqa: PLW2901  # its leaves cannot be stacked
        args.append(numbers(rng, *shape) if kind == DENSE else KINDS[kind].make(rng, shape))
    handlers = HANDLERS if case.handlers else None
    transformed = tq.use_implicit_args(case.program, handlers=handlers)
    implicit: Callable[..., Any] = transformed
    batched = all(kind == DENSE or KINDS[kind].batches for kind, _ in case.arguments)
    if case.transformation in DERIVATIVES or not batched:

        def implicit_to_dense(*args: Any) -> Any:
            return tq.materialize(transformed(*args))

        implicit = implicit_to_dense

    def reference(*args: Any) -> Any:
        return case.program(*dense(args))

    outside = OUTSIDE[case.transformation]
    dense(args)  # what is wrong with that is nothing that JAX refuses
    try:
        if case.transformation == "vmap_dense":
            want = _vmap_reference(case.program, args)
        else:
            want = outside(reference, *args)
    except REFUSED:
        return False
    got = outside(implicit, *args)
    compare(got if case.transformation in DERIVATIVES else dense(got), want)
    return True


def check_refusals(case: Case) -> bool:
    """What is refused of the program is what is told of it: what it makes dense in the end.

    Raises:
        AssertionError: it is not.
    """
    rng = np.random.default_rng(0)
    args = [
        numbers(rng, *shape) if kind == DENSE else KINDS[kind].make(rng, shape)
        for kind, shape in case.arguments
    ]
    try:
        case.program(*dense(args))
    except REFUSED:
        return False
    f = tq.use_implicit_args(case.program, handlers=HANDLERS if case.handlers else None)
    told = {line.primitive for line in tq.explain(f)(*args).materialized}
    with tq.materialization("error", allow=told):
        f(*args)
    for one in sorted(told):
        refused = _refusal(f, args, told - {one})
        assert f"for {one}(" in refused, (one, refused)
    return True


def _refusal(f: Any, args: list[Any], allow: set[str]) -> str:
    try:
        with tq.materialization("error", allow=allow):
            f(*args)
    except tq.MaterializationError as error:
        return str(error)
    return "nothing"


def _vmap_reference(program: Any, args: list[Any]) -> Any:
    axes = tuple(None if tq.is_implicit(a) else 0 for a in args)
    full = [dense(a) for a in args]
    if all(axis is None for axis in axes):
        return program(*full)
    stacked = [
        a if axis is None else jnp.stack([a, 2 * a]) for a, axis in zip(full, axes, strict=True)
    ]
    return jax.vmap(program, in_axes=axes)(*stacked)


def compare(got: Any, want: Any) -> None:
    """Both have the same structure, shapes, dtypes and, to rounding, numbers."""
    got_leaves, got_tree = jax.tree.flatten(got)
    want_leaves, want_tree = jax.tree.flatten(want)
    assert got_tree == want_tree, (got_tree, want_tree)
    for one, other in zip(got_leaves, want_leaves, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), (one, other)
        if one.dtype == jax.dtypes.float0:
            continue
        np.testing.assert_allclose(
            np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=2e-4, atol=2e-4
        )


def look(
    count: int, seed: int | None = None, checked: Callable[[Case], bool] | None = None
) -> None:
    """Look for a program that breaks the law among `count`; raise for the shortest found.

    What is `checked` is that numbers are right, if nothing else is said.

    Raises:
        AssertionError: there is one; or so few could be compared that nothing is shown.
    """
    compared = [0, 0]

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        phases=[Phase.generate, Phase.shrink],
    )
    @given(cases())
    def law(case: Case) -> None:
        compared[(checked or check)(case)] += 1

    if seed is not None:
        from hypothesis import seed as seeded

        law = seeded(seed)(law)
    law()
    refused, held = compared
    assert held >= MOST * count, f"{refused} of {refused + held} programs are refused by JAX alone"


def main() -> None:
    """Run the long mode from the command line."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    warnings.simplefilter("error")
    if sys.argv[3:] == ["refusals"]:
        look(count, start, check_refusals)
        print(f"{count} programs from seed {start} on are refused for what they make dense")
    else:
        look(count, start)
        print(f"{count} programs from seed {start} on give what dense arrays give")


if __name__ == "__main__":
    main()
