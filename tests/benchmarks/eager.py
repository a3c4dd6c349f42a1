"""What an operation costs outside jit, when an operand is implicit or only in company of one.

    python -m tests.benchmarks.eager > eager.json

`sin` of an implicit array whose handler applies `sin` to its field, beside `jax.lax.sin` of that
field; and `sin` of a dense array inside the transform, beside the same outside. quax, where it is
installed, runs the same. CPU time, interleaved; the median of the rounds' ratios is given.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import typedqax as tq
from typedqax import ops

ROUNDS, REPEATS = 60, 200
BOUNDS = {"implicit": 6.0, "dense_beside": 1.3}


class Wrapped(tq.ImplicitArray):
    """An array, and nothing else."""

    x: tq.ArrayValue

    def materialize(self) -> Array:
        """The array."""
        return self.x * 1.0


def sine(w: Wrapped, /, **_params: Any) -> Wrapped:
    """A wrapped array's sine."""
    return Wrapped(lax.sin(w.x))


TABLE = tq.HandlerTable("wrapped", ops.sin.to(sine))


def per_operation(operand: Any) -> float:
    """CPU seconds of one `sin`, by repeating it."""
    lax.sin(operand)
    start = time.thread_time()
    for _ in range(REPEATS):
        result = lax.sin(operand)
    spent = time.thread_time() - start
    jax.block_until_ready(result)
    return spent / REPEATS


def quax_ways() -> dict[str, Callable[[], float]]:
    """The same two with quax."""
    if importlib.util.find_spec("quax") is None:
        return {}
    quax: Any = importlib.import_module("quax")

    class QuaxWrapped(quax.ArrayValue):  # type: ignore[misc]  # quax is not installed everywhere
        x: Array

        def aval(self) -> Any:
            return jax.typeof(self.x)

        def materialise(self) -> Array:
            return self.x

    def quax_sine(w: Any, **_params: Any) -> Any:
        return QuaxWrapped(lax.sin(w.x))

    quax_sine.__annotations__ = {"w": QuaxWrapped}  # it does not find the class by its name
    quax.register(lax.sin_p)(quax_sine)

    x = jnp.ones(3)
    return {
        "quax_implicit": lambda: quax.quaxify(per_operation)(QuaxWrapped(x)),
        "quax_dense_beside": lambda: quax.quaxify(lambda w, x: per_operation(x))(QuaxWrapped(x), x),
    }


def main() -> None:
    """Print the figures as JSON; the exit status says whether the bounds are kept."""
    x = jnp.ones(3)
    w = Wrapped(x)
    implicit: Callable[..., float] = tq.use_implicit_args(per_operation, handlers=TABLE)
    beside: Callable[..., float] = tq.use_implicit_args(
        lambda w, x: per_operation(x), handlers=TABLE
    )
    ways: dict[str, Callable[[], float]] = {
        "plain": lambda: per_operation(x),
        "implicit": lambda: implicit(w),
        "dense_beside": lambda: beside(w, x),
        **quax_ways(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(ROUNDS):
        for name, way in list(ways.items())[:: 1 if i % 2 else -1]:
            seconds[name].append(way())
    results = {
        name: {
            "us": 1e6 * statistics.median(own),
            "ratio": statistics.median(a / b for a, b in zip(own, seconds["plain"], strict=True)),
        }
        for name, own in seconds.items()
    }
    json.dump({"bounds": BOUNDS, "results": results}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(results[name]["ratio"] > bound for name, bound in BOUNDS.items()))


if __name__ == "__main__":
    main()
