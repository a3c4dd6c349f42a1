"""What a compiled call with an implicit array costs, beside one with an ordinary pytree.

    python -m tests.benchmarks.warm_call > warm_call.json

The same function is jitted over a `LoraMatrix` under `use_implicit_args`, and over a class with the
same fields registered by hand. What is left of typedqax in such a call is the flattening of its
arguments. CPU time, interleaved; a ratio for each round, of which the median is given.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import typedqax as tq
from typedqax.arrays import LORA, LoraMatrix

ROUNDS, CALLS, BOUND = 60, 300, 1.05


class Plain:
    """The fields of a `LoraMatrix`, in a class that JAX knows by hand-written registration."""

    def __init__(self, w: Array, a: Array, b: Array, alpha: float) -> None:
        self.w, self.a, self.b, self.alpha = w, a, b, alpha


def flatten(p: Plain) -> tuple[tuple[Array, ...], float]:
    """The leaves and the auxiliary data."""
    return (p.w, p.a, p.b), p.alpha


def unflatten(alpha: float, leaves: tuple[Any, ...]) -> Plain:
    """The object again, without any checks."""
    plain = object.__new__(Plain)
    plain.w, plain.a, plain.b = leaves
    plain.alpha = alpha
    return plain


jax.tree_util.register_pytree_node(Plain, flatten, unflatten)


def by_hand(x: Array, p: Plain) -> Array:
    """What the handlers compute."""
    return x @ p.w + (p.alpha * (x @ p.a)) @ p.b.T


def seconds(f: Callable[..., Array], *operands: Any) -> float:
    """CPU seconds of some calls."""
    start = time.thread_time()
    for _ in range(CALLS):
        f(*operands)
    spent = time.thread_time() - start
    f(*operands).block_until_ready()
    return spent


def measure(matrices: int) -> dict[str, Any]:
    """The ratio of both calls, for a function of this many matrices."""
    x = jnp.ones((4, 8))
    leaves = jnp.ones((8, 8)), jnp.ones((8, 2)), jnp.ones((8, 2))
    plain = [Plain(*leaves, 0.5) for _ in range(matrices)]
    lora = [LoraMatrix(*leaves, alpha=0.5) for _ in range(matrices)]

    def chain(x: Array, ps: list[Plain]) -> Array:
        for p in ps:
            x = by_hand(x, p)
        return x

    def implicit_chain(x: Array, ws: list[Array]) -> Array:
        for w in ws:
            x = x @ w
        return x

    ordinary = jax.jit(chain)
    implicit = jax.jit(tq.use_implicit_args(implicit_chain, handlers=LORA))
    ordinary(x, plain), implicit(x, lora)
    ratios: list[float] = []
    first: list[float] = []
    second: list[float] = []
    for i in range(ROUNDS):
        pair = [(ordinary, plain, first), (implicit, lora, second)]
        for f, operand, out in pair if i % 2 else pair[::-1]:
            out.append(seconds(f, x, operand))
        ratios.append(second[-1] / first[-1])
    return {
        "matrices": matrices,
        "ordinary_us": 1e6 * min(first) / CALLS,
        "implicit_us": 1e6 * min(second) / CALLS,
        "ratio_of_minima": min(second) / min(first),
        "median_ratio": statistics.median(ratios),
        "quartiles": statistics.quantiles(ratios, n=4),
    }


def main() -> None:
    """Print the ratios as JSON; the exit status says whether the bound is kept."""
    results = [measure(n) for n in (1, 4, 16)]
    json.dump({"bound": BOUND, "results": results}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(r["median_ratio"] > BOUND for r in results))


if __name__ == "__main__":
    main()
