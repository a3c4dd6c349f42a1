"""How fast a handler is found and run, beside plum and quax where these are installed.

    python -m tests.benchmarks.dispatch > dispatch.json

Three measurements, in CPU time, the systems taking turns:

* `trace_zeros`: one multiplication of symbolic zeros while tracing; the handler stages nothing.
* `trace_lora`: one `x @ w` with LoRA while tracing, where dense JAX stages one primitive, and the
  handler of each system the same four.
* `resolve`: which of N handlers takes these operands, asked again: the cached answer.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Shaped

import typedqax as tq
from typedqax import ops
from typedqax._dispatch import Tables, resolve
from typedqax._signature import Dense, Operand

ROUNDS, LENGTH = 15, 50
SYSTEMS = ["dense", "typedqax", *filter(importlib.util.find_spec, ["quax", "plum"])]


def interleaved(runs: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Microseconds of one of `times` steps of each run: the best of the rounds."""
    best = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            best[name] = min(best[name], time.thread_time() - start)
    return {name: 1e6 * spent / times for name, spent in best.items()}


class Nothing(tq.ImplicitArray):
    """Symbolic zeros, for typedqax."""

    def materialize(self) -> Array:
        """The zeros."""
        return jnp.zeros(self.shape, self.dtype)


def mul_nothing(x: Nothing, y: Array, /, **params: Any) -> Nothing:
    """Zero times anything."""
    return x


class Lora(tq.ImplicitArray):
    """LoRA, for typedqax."""

    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "r n"]

    def materialize(self) -> Float[Array, "m n"]:
        """The sum."""
        return self.w + self.a @ self.b


def dot_lora(
    x: Float[Array, "k m"], w: Float[Lora, "m n"], /, **params: Any
) -> Float[Array, "k n"]:
    """Three products and a sum."""
    dot = ops.dot_general.bind
    return ops.add.bind(dot(x, w.w, **params), dot(dot(x, w.a, **params), w.b, **params))


TABLE = tq.HandlerTable("bench", ops.mul.to(mul_nothing), ops.dot_general.to(dot_lora))

if "quax" in SYSTEMS:
    import equinox as eqx

    quax: Any = importlib.import_module("quax")

    class QuaxNothing(quax.ArrayValue):  # type: ignore[misc]  # quax is Any here
        """Symbolic zeros, for quax."""

        extent: tuple[int, ...] = eqx.field(static=True)

        def aval(self) -> Any:
            """Their shape and dtype."""
            return jax.core.ShapedArray(self.extent, jnp.float32)

        def materialise(self) -> Array:
            """The zeros."""
            return jnp.zeros(self.extent)

    class QuaxLora(quax.ArrayValue):  # type: ignore[misc]  # quax is Any here
        """LoRA, for quax."""

        w: Array
        a: Array
        b: Array

        def aval(self) -> Any:
            """Its shape and dtype."""
            return jax.core.ShapedArray(self.w.shape, self.w.dtype)

        def materialise(self) -> Array:
            """The sum."""
            return self.w + self.a @ self.b

    def quax_mul(x: QuaxNothing, y: Array, **params: Any) -> QuaxNothing:
        """Zero times anything."""
        return x

    def quax_dot(x: Array, w: QuaxLora, **params: Any) -> Any:
        """Three products and a sum."""
        dot = jax.lax.dot_general_p.bind
        return jax.lax.add_p.bind(dot(x, w.w, **params), dot(dot(x, w.a, **params), w.b, **params))

    quax.register(jax.lax.mul_p)(quax_mul)
    quax.register(jax.lax.dot_general_p)(quax_dot)


def products(z: Any, x: Array) -> Any:
    """Many multiplications."""
    for _ in range(LENGTH):
        z = jax.lax.mul(z, x)
    return z


def layers(x: Array, w: Any) -> Array:
    """Many matrix products."""
    for _ in range(LENGTH):
        x = jax.lax.dot(x, w)
    return x


def traced(f: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    """A run that traces `f` anew, without the time of the first transform."""
    return lambda: jax.make_jaxpr(lambda *xs: f(*xs))(*operands)


def trace_zeros() -> dict[str, float]:
    """Microseconds per multiplication of zeros."""
    x = jnp.ones((3, 3))
    runs = {
        "dense": traced(products, x, x),
        "typedqax": traced(
            tq.use_implicit_args(products, handlers=TABLE), Nothing(shape=(3, 3), dtype=x.dtype), x
        ),
    }
    if "quax" in SYSTEMS:
        runs["quax"] = traced(quax.quaxify(products), QuaxNothing((3, 3)), x)
    return interleaved(runs, LENGTH)


def trace_lora() -> dict[str, float]:
    """Microseconds per product."""
    x, w, a, b = jnp.ones((3, 8)), jnp.ones((8, 8)), jnp.ones((8, 2)), jnp.ones((2, 8))
    runs = {
        "dense": traced(layers, x, w),
        "typedqax": traced(tq.use_implicit_args(layers, handlers=TABLE), x, Lora(w, a, b)),
    }
    if "quax" in SYSTEMS:
        runs["quax"] = traced(quax.quaxify(layers), x, QuaxLora(w, a, b))
    return interleaved(runs, LENGTH)


def resolve_cached(handlers: int) -> dict[str, float]:
    """Microseconds to find one of so many handlers of two operands, again."""
    times = 2000
    kinds = [type(f"Kind{i}", (Nothing,), {}) for i in range(handlers)]

    def accepting(kind: Any, other: Any) -> Callable[..., Any]:
        def handler(x, y, /, **params):  # type: ignore[no-untyped-def]  # annotated below
            return x

        handler.__annotations__ = {"x": kind, "y": other}
        return handler

    def repeated(ask: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for _ in range(times):
                ask()

        return run

    rules = (ops.mul.to(accepting(kind, Shaped[Array, "..."])) for kind in kinds)
    tables = Tables(tq.HandlerTable(f"kinds {handlers}", *rules), isolated=True)
    operands = Operand(kinds[-1], "float32", (3, 3)), Operand(Dense, "float32", (3, 3))
    runs = {"typedqax": repeated(lambda: resolve(tables, "mul", operands, None))}
    if "plum" in SYSTEMS:
        plum: Any = importlib.import_module("plum")
        classes = [type(f"Class{i}", (), {}) for i in range(handlers)]
        function = plum.Function(accepting(object, object))
        for cls in classes:
            function.dispatch(accepting(cls, float))
        # By types, as quax asks it.
        key = classes[-1], float
        runs["plum"] = repeated(lambda: function._resolve_method_with_cache(types=key))
    return interleaved(runs, times)


def main() -> None:
    """Print all measurements as JSON."""
    results = {
        "trace_zeros_us": trace_zeros(),
        "trace_lora_us": trace_lora(),
        "resolve_us": {n: resolve_cached(n) for n in (1, 10, 100)},
    }
    json.dump(results, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
