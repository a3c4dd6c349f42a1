"""What tracing and lowering cost with LoRA on every matrix of a transformer, beside other ways.

    python -m tests.benchmarks.tracing > tracing.json

The gradient in the adapters of a transformer, traced and lowered: with `LoraMatrix` on the
unmodified model, with LoRA written into the model by hand, and with quax where that is installed.
The same again with layers that are jitted, for twice the layers, and with nothing implicit. CPU
time, interleaved; the median of the rounds' ratios is given.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import Array

import typedqax as tq
from tests.benchmarks.transformer import (
    Layer,
    Program,
    gradient,
    join_lora,
    layer_of,
    loss_of,
    operands_for,
    product,
    programs,
    same,
)
from typedqax.arrays import LORA

LAYERS, ROUNDS = 12, 15
DENSE_LAYERS, DENSE_ROUNDS = 2, 150
BOUNDS = {"lora": 1.25, "jitted_layers": 1.25, "dense": 1.02}


def lowered(make: Program, layers: int) -> float:
    """CPU seconds to trace and lower a new such function."""
    operands = operands_for(layers)
    f = make()
    start = time.thread_time()
    jax.jit(f).lower(*operands)
    return time.thread_time() - start


def rounds(ways: dict[str, Callable[[], float]], count: int) -> dict[str, list[float]]:
    """The seconds of each way in each round; the first round, in which caches fill, is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(count + 1):
        for name, way in list(ways.items())[:: 1 if i % 2 else -1]:
            spent = way()
            if i:
                seconds[name].append(spent)
    return seconds


def ratios(ways: dict[str, Callable[[], float]], count: int = ROUNDS) -> dict[str, Any]:
    """The median time of each way, and the median of its ratios to the first."""
    seconds = rounds(ways, count)
    first = next(iter(seconds.values()))
    return {
        name: {
            "ms": 1e3 * statistics.median(own),
            "ratio": statistics.median(a / b for a, b in zip(own, first, strict=True)),
        }
        for name, own in seconds.items()
    }


def at(layers: int, jit: Callable[..., Any] = same) -> dict[str, Any]:
    """The figures of all ways for so many layers."""
    made = programs(jit)
    return ratios({name: partial(lowered, make, layers) for name, make in made.items()})


def dense() -> dict[str, Any]:
    """The figures for a model in which nothing is implicit, with and without the transform.

    The bound is so near to 1 that it takes many rounds; the ratio of the plain program to itself is
    given too.
    """

    def seconds(transform: Callable[..., Any]) -> float:
        loss = transform(loss_of(layer_of(product)))
        operands = operands_for(DENSE_LAYERS)[1:]
        gc.collect()
        gc.disable()  # as timeit does: collecting takes as long as what is measured here
        try:
            start = time.thread_time()
            jax.jit(jax.grad(loss)).lower(*operands)
            return time.thread_time() - start
        finally:
            gc.enable()

    ways = {"plain": same, "itself": same, "typedqax": lora_transform}
    return ratios({name: partial(seconds, way) for name, way in ways.items()}, DENSE_ROUNDS)


def lora_transform(f: Callable[..., Any]) -> Callable[..., Any]:
    """The transform with the handlers of `LoraMatrix`."""
    return tq.use_implicit_args(f, handlers=LORA)


def times_traced() -> int:
    """How often the body of a jitted layer is traced in a model of many."""
    traced = []
    inner = layer_of(product)

    def counted(x: Array, params: Layer) -> Array:
        traced.append(x)
        return inner(x, params)

    loss = tq.use_implicit_args(loss_of(jax.jit(counted)), handlers=LORA)
    operands = operands_for(LAYERS)
    jax.jit(gradient(join_lora, loss)).lower(*operands)
    return len(traced)


def main() -> None:
    """Print the figures as JSON; the exit status says whether the bounds are kept."""
    with tq.materialization("error"):
        lora, twice, jitted = at(LAYERS), at(2 * LAYERS), at(LAYERS, jax.jit)
        results = {
            "layers": LAYERS,
            "lora": lora,
            "lora_twice_the_layers": twice,
            "time_of_twice_the_layers": twice["typedqax"]["ms"] / lora["typedqax"]["ms"],
            "jitted_layers": jitted,
            "jitted_layers_traced": times_traced(),
            "dense": dense(),
            "bounds": BOUNDS,
        }
    json.dump(results, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(results[name]["typedqax"]["ratio"] > bound for name, bound in BOUNDS.items()))


if __name__ == "__main__":
    main()
