"""What the policy, and knowing which argument an array is, add to the time of tracing.

    python -m tests.benchmarks.policy_cost > policy_cost.json

Pairs of traces of one program, in CPU time, the two of a pair taking turns; of each pair the ratio
of the best rounds is given, and the median of the ratios of single rounds, which decides:

* `itself`: the same twice, which tells how far the machine can be trusted.
* `in_force`: all is handled; inside three nested policies, and without any.
* `allowed`: nothing is handled and all is allowed; as it is, and with nobody asking the policy.
* `named`: a model of 100 matrices, all handled; with the arguments named, and without.
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
from typedqax._dispatch import Tables
from typedqax._run import Run
from typedqax._scope import Scope
from typedqax._transform import apply
from typedqax.arrays import LORA, LoraMatrix

ROUNDS, LENGTH, BOUND = 100, 20, 1.02

X = jnp.ones((4, 8))
W = LoraMatrix(jnp.ones((8, 8)), jnp.ones((8, 2)), jnp.ones((8, 2)))
PARAMS = {"layers": [{"attention": {"kernel": W}} for _ in range(100)]}


def handled(x: Array, w: Array) -> Array:
    """Matrix products, which a handler computes."""
    for _ in range(LENGTH):
        x = jax.lax.dot(x, w)
    return x


def dense(x: Array, w: Array) -> Array:
    """A function that no handler takes."""
    for _ in range(LENGTH):
        x = jax.lax.dot(x, jax.lax.tanh(w))
    return x


def model(params: dict[str, Any], x: Array) -> Array:
    """A product with each of the matrices."""
    for layer in params["layers"]:
        x = jax.lax.dot(x, layer["attention"]["kernel"])
    return x


def traced(f: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    """A run that traces `f` anew."""
    return lambda: jax.make_jaxpr(lambda *each: f(*each))(*operands)


def seconds(run: Callable[[], object]) -> float:
    """CPU seconds of a run."""
    start = time.thread_time()
    run()
    return time.thread_time() - start


def compare(first: Callable[[], object], second: Callable[[], object]) -> dict[str, float]:
    """The second beside the first."""
    first(), second()
    one: list[float] = []
    two: list[float] = []
    for turn in range(ROUNDS):
        pair = [(first, one), (second, two)]
        for run, out in pair if turn % 2 else pair[::-1]:
            out.append(seconds(run))
    return {
        "without_ms": 1e3 * min(one),
        "with_ms": 1e3 * min(two),
        "ratio_of_best": min(two) / min(one),
        "median_ratio": statistics.median(b / a for a, b in zip(one, two, strict=True)),
    }


def itself() -> dict[str, float]:
    """One trace, beside itself."""
    run = traced(tq.use_implicit_args(handled, handlers=LORA), X, W)
    return compare(run, run)


def in_force() -> dict[str, float]:
    """Policies around a program in which nothing becomes dense."""
    run = traced(tq.use_implicit_args(handled, handlers=LORA), X, W)

    def inside() -> None:
        with (
            tq.materialization("error", LoraMatrix, allow={"tanh"}, larger_than=1 << 20),
            tq.materialization("warn"),
            tq.materialization("error", larger_than=1 << 30),
        ):
            run()

    return compare(run, inside)


def allowed() -> dict[str, float]:
    """A program in which all becomes dense, and may."""
    run = traced(tq.use_implicit_args(dense, handlers=LORA, isolated=True), X, W)
    asks = Run.asks_of

    def asked() -> None:
        with tq.materialization("allow", LoraMatrix):
            run()

    def unasked() -> None:
        Run.asks_of = lambda *asked: False  # type: ignore[method-assign]  # what is measured
        try:
            asked()
        finally:
            Run.asks_of = asks  # type: ignore[method-assign]  # as before

    return compare(unasked, asked)


def named() -> dict[str, float]:
    """A model whose arguments reports could name."""
    tables = Tables.of(LORA)

    def with_names(params: Any, x: Any) -> Any:
        with Scope(tables) as scope:
            return apply(model, (params, x), {}, tables, scope)

    def without_names(params: Any, x: Any) -> Any:
        with Scope(tables):
            return apply(model, (params, x), {}, tables)

    return compare(traced(without_names, PARAMS, X), traced(with_names, PARAMS, X))


def main() -> None:
    """Print the ratios as JSON; the exit status says whether the bound is kept."""
    pairs = (itself, in_force, allowed, named)
    results = {pair.__name__: pair() for pair in pairs}
    noise = abs(results["itself"]["median_ratio"] - 1)
    json.dump({"bound": BOUND, "noise": noise, "results": results}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(each["median_ratio"] > BOUND + noise for each in results.values()))


if __name__ == "__main__":
    main()
