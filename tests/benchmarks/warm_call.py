"""What a compiled call with an implicit array costs, beside one with an ordinary pytree.

    python -m tests.benchmarks.warm_call > warm_call.json

The same function is jitted over a `LoraMatrix` under `use_implicit_args`, and over a class with the
same fields registered by hand: chains of tiny products, which do little but flatten their
arguments, and a small transformer. What is left of typedqax in such a call is that flattening.
CPU time, interleaved; a ratio for each round, of which the median is given.
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
from tests.benchmarks.transformer import MATRICES, RANK, WIDTH, layer_of, loss_of, product
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


def seconds(f: Callable[..., Array], calls: int, *operands: Any) -> float:
    """CPU seconds of some calls, in all threads."""
    start = time.process_time()
    for _ in range(calls):
        result = f(*operands)
    result.block_until_ready()
    return time.process_time() - start


def compare(
    ordinary: Callable[..., Array],
    implicit: Callable[..., Array],
    calls: int,
    *operands: tuple[Any, Any],
) -> dict[str, Any]:
    """The ratio of both calls; each operand is given for the one and for the other."""
    sides = [(ordinary, [each[0] for each in operands]), (implicit, [each[1] for each in operands])]
    spent: tuple[list[float], list[float]] = [], []
    for f, given in sides:
        f(*given).block_until_ready()
    for i in range(ROUNDS):
        for side in (0, 1) if i % 2 else (1, 0):
            f, given = sides[side]
            spent[side].append(seconds(f, calls, *given))
    ratios = [b / a for a, b in zip(*spent, strict=True)]
    return {
        "ordinary_us": 1e6 * min(spent[0]) / calls,
        "implicit_us": 1e6 * min(spent[1]) / calls,
        "ratio_of_minima": min(spent[1]) / min(spent[0]),
        "median_ratio": statistics.median(ratios),
        "quartiles": statistics.quantiles(ratios, n=4),
    }


def chain(matrices: int) -> dict[str, Any]:
    """The ratio for a chain of so many products."""
    x = jnp.ones((4, 8))
    leaves = jnp.ones((8, 8)), jnp.ones((8, 2)), jnp.ones((8, 2))
    plain = [Plain(*leaves, 0.5) for _ in range(matrices)]
    lora = [LoraMatrix(*leaves, alpha=0.5) for _ in range(matrices)]

    def ordinary(x: Array, ps: list[Plain]) -> Array:
        for p in ps:
            x = by_hand(x, p)
        return x

    def implicit(x: Array, ws: list[Array]) -> Array:
        for w in ws:
            x = x @ w
        return x

    under = tq.use_implicit_args(implicit, handlers=LORA)
    return compare(jax.jit(ordinary), jax.jit(under), CALLS, (x, x), (plain, lora))


def model(layers: int) -> dict[str, Any]:
    """The ratio for a transformer with LoRA in its every matrix."""
    x = jnp.ones((8, 64, WIDTH))
    plain, lora = [
        [
            {
                n: made(jnp.ones((i, o)), jnp.ones((i, RANK)), jnp.ones((o, RANK)), alpha=0.5)
                for n, (i, o) in MATRICES.items()
            }
            for _ in range(layers)
        ]
        for made in (Plain, LoraMatrix)
    ]
    ordinary = loss_of(layer_of(by_hand))
    under = tq.use_implicit_args(loss_of(layer_of(product)), handlers=LORA)
    return compare(jax.jit(ordinary), jax.jit(under), 5, (plain, lora), (x, x))


def main() -> None:
    """Print the ratios as JSON; the exit status says whether the bound is kept."""
    results = [{"matrices": n, **chain(n)} for n in (1, 4, 16)]
    results += [{"transformer of layers": n, **model(n)} for n in (1, 12)]
    json.dump({"bound": BOUND, "results": results}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(r["median_ratio"] > BOUND for r in results))


if __name__ == "__main__":
    main()
