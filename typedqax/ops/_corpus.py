"""The corpus: what params and operands JAX gives its primitives, as seen by tracing.

Run as `python -m typedqax.ops._corpus` (some minutes). It writes `_corpus.json`, which the
generator reads, and imports nothing of the rest of typedqax.
"""

from __future__ import annotations

import enum
import importlib.metadata
import inspect
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive

FILE = Path(__file__).with_name("_corpus.json")

_MODULES: tuple[Any, ...] = (
    jnp,
    jnp.fft,
    jnp.linalg,
    lax,
    lax.linalg,
    jax.nn,
    jax.image,
    jax.random,
    jsp.linalg,
    jsp.special,
    jsp.signal,
    jsp.stats.norm,
)
# They touch files, wait, or change the process.
_LEFT_OUT = frozenset(
    {"save", "savez", "load", "fromfile", "frombuffer", "set_printoptions", "infeed", "outfeed"}
)


class Seen:
    """What has been seen of each primitive, by its own name."""

    def __init__(self) -> None:
        self.operands: dict[str, set[int]] = {}
        self.results: dict[str, set[int]] = {}
        self.params: dict[str, dict[str, set[str]]] = {}

    def add(self, jaxpr: Jaxpr) -> None:
        """Record every equation of `jaxpr`, and of the jaxprs in their params."""
        for equation in jaxpr.eqns:
            name = equation.primitive.name
            self.operands.setdefault(name, set()).add(len(equation.invars))
            self.results.setdefault(name, set()).add(len(equation.outvars))
            params = self.params.setdefault(name, {})
            for param, value in equation.params.items():
                params.setdefault(param, set()).add(describe(value))
                for inner in _jaxprs(value):
                    self.add(inner)

    def as_json(self) -> dict[str, Any]:
        """The record in a fixed order."""
        return {
            name: {
                "operands": sorted(self.operands[name]),
                "results": sorted(self.results[name]),
                "params": {p: sorted(kinds) for p, kinds in sorted(self.params[name].items())},
            }
            for name in sorted(self.operands)
        }


def describe(value: object) -> str:
    """The type of a param's value, as one would write it."""
    if value is None:
        return "None"
    if isinstance(value, np.dtype):
        return "np.dtype"
    if isinstance(value, Primitive):
        return "Primitive"
    if isinstance(value, enum.Enum):
        return type(value).__name__
    if isinstance(value, (tuple, list)) and type(value) in {tuple, list}:
        inner = sorted({describe(item) for item in value})
        kind = type(value).__name__
        if not inner:
            return f"{kind}[()]"
        return f"{kind}[{' | '.join(inner)}, ...]"
    if inspect.isfunction(value) or inspect.ismethod(value):
        return "function"
    return type(value).__name__


def _jaxprs(value: object) -> Iterator[Jaxpr]:
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _jaxprs(item)


def _argument_sets() -> list[tuple[Any, ...]]:
    vector = jnp.linspace(0.1, 0.9, 3)
    matrix = jnp.eye(3) + 0.1
    cube = jnp.ones((2, 3, 4))
    index = jnp.arange(3)
    mask = jnp.array([True, False, True])
    spectrum = matrix.astype(jnp.complex64)
    key = jax.random.key(0)
    return [
        (vector,),
        (matrix,),
        (cube,),
        (index,),
        (mask,),
        (spectrum,),
        (vector, vector),
        (matrix, matrix),
        (matrix, vector),
        (index, index),
        (mask, mask),
        (spectrum, spectrum),
        (vector, vector, vector),
        (mask, vector, vector),
        (matrix, 1),
        (cube, (1,)),
        (cube, (2, 0, 1)),
        (vector, index),
        ([matrix, matrix],),
        ((3, 3),),
        (key,),
        (key, (3,)),
        (key, vector),
        (key, vector, (3,)),
        (vector, jnp.float16),
        (vector, 0.5, 0.25),
        (4,),
    ]


def _functions() -> Iterator[Callable[..., Any]]:
    seen = set()
    for module in _MODULES:
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if name.startswith("_") or name in _LEFT_OUT or inspect.isclass(function):
                continue
            if callable(function) and id(function) not in seen:
                seen.add(id(function))
                yield function


def _trace(seen: Seen, function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether `function` could be traced at `arguments`; arrays are traced, the rest is static."""
    leaves, tree = jax.tree.flatten(arguments)
    dynamic = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    def apply(*arrays: Any) -> Any:
        given = iter(arrays)
        mixed = [next(given) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
        return function(*jax.tree.unflatten(tree, mixed))

    try:
        seen.add(jax.make_jaxpr(apply)(*dynamic).jaxpr)
    except Exception:  # noqa: BLE001  # most combinations make no sense, in as many ways
        return False
    return True


def _derivatives(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    def pulled_back(*arguments: Any) -> Any:
        out, pull = jax.vjp(function, *arguments)
        return pull(out)

    def batched(*arguments: Any) -> Any:
        stacked = jax.tree.map(
            lambda a: jnp.stack([a, a]) if isinstance(a, jax.Array) else a, arguments
        )
        axes = jax.tree.map(lambda a: 0 if isinstance(a, jax.Array) else None, arguments)
        return jax.vmap(function, in_axes=axes)(*stacked)

    yield pulled_back
    yield batched


@jax.custom_vjp
def _tripled(x: jax.Array) -> jax.Array:
    return 3 * x


_tripled.defvjp(lambda x: (3 * x, None), lambda _, cotangent: (3 * cotangent,))


def _special() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:  # noqa: PLR0915  # a list
    """Calls that need more than arrays."""
    x, m, k = jnp.ones(3), jnp.ones((3, 3)), jax.random.key(0)
    image, kernel = jnp.ones((1, 8, 8, 2)), jnp.ones((3, 3, 2, 4))
    numbers = ("NHWC", "HWIO", "NHWC")
    shaped = jax.ShapeDtypeStruct((3,), jnp.float32)
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    sharding = jax.sharding.NamedSharding(mesh, spec)

    def mapped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return jax.vmap(f, axis_name="i")

    def sharded(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)

    yield lambda a: a @ a, (m,)
    yield lambda a: lax.dot_general(a, a, (((1,), (0,)), ((), ())), precision="highest"), (m,)
    yield lambda a: jnp.dot(a, a, preferred_element_type=jnp.float32), (m,)
    yield (
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=numbers),
        (
            image,
            kernel,
        ),
    )
    yield lambda a: a[jnp.array([0, 2])], (m,)
    yield lambda a: a[0], (m,)
    yield lambda a: a[::2, 1:], (m,)
    yield lambda a, i: a[i], (m, jnp.int32(1))
    for update in ("set", "add", "multiply", "min", "max", "apply"):
        if update == "apply":
            yield lambda a: a.at[0].apply(jnp.sin), (m,)
        else:
            yield lambda a, u=update: getattr(a.at[jnp.array([0, 1])], u)(2.0), (m,)
    yield (
        lambda a: lax.scatter_sub(
            a,
            jnp.array([[0]]),
            jnp.ones((1, 3)),
            lax.ScatterDimensionNumbers((1,), (0,), (0,)),
        ),
        (m,),
    )
    yield lambda a: lax.scan(lambda c, y: (c + y, c), a, m), (x,)
    yield lambda a: lax.fori_loop(0, 3, lambda _, c: c * 2, a), (x,)
    yield lambda a: lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 2, a), (x,)
    yield lambda a: lax.cond(a.sum() > 0, jnp.sin, jnp.cos, a), (x,)
    yield lambda a, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], a), (x, jnp.int32(1))
    yield partial(lax.map, jnp.sin), (m,)
    yield partial(lax.associative_scan, jnp.add), (m,)
    yield jax.checkpoint(jnp.sin), (x,)
    yield jax.jit(jnp.sin), (x,)
    yield jax.nn.relu, (x,)
    yield _tripled, (x,)
    yield lambda a: lax.custom_linear_solve(lambda v: v * 2, a, lambda _, b: b / 2), (x,)
    yield lambda a: lax.reduce(a, 0.0, lambda p, q: p * q + 1, (0,)), (x,)
    yield lambda a: lax.reduce_window(a, 0.0, lax.add, (2,), (1,), "SAME"), (x,)
    yield lambda a: lax.reduce_window(a, -np.inf, lax.max, (2,), (1,), "SAME"), (x,)
    yield lambda a: lax.reduce_window(a, np.inf, lax.min, (2,), (1,), "SAME"), (x,)
    yield lambda a: lax.reduce_window(a, 0.0, lambda p, q: p + q * q, (2,), (1,), "SAME"), (x,)
    yield lambda a: lax.pad(a, 0.0, [(1, 1, 0)]), (x,)
    yield lambda a: lax.top_k(a, 2), (x,)
    yield lambda a: lax.approx_max_k(a, 2), (x,)
    yield lambda a: lax.sort((a, a * 2), num_keys=1), (x,)
    yield lambda a: lax.split(a, (1, 2)), (x,)
    yield lambda a: lax.reduce_precision(a, 5, 10), (x,)
    yield lambda a: lax.bitcast_convert_type(a, jnp.int32), (x,)
    yield lambda a: lax.optimization_barrier((a, a)), (x,)
    yield lax.stop_gradient, (x,)
    yield lambda a: lax.dynamic_slice(a, (1, 1), (2, 2)), (m,)
    yield lambda a: lax.dynamic_update_slice(a, a[:1], (1, 1)), (m,)
    yield lambda a: lax.select_n(jnp.array([0, 1, 2]), a, a, a), (x,)
    yield lambda a: lax.platform_dependent(a, cpu=jnp.sin, default=jnp.cos), (x,)
    yield lambda a: jax.pure_callback(np.sin, shaped, a), (x,)
    yield lambda a: io_callback(np.sin, shaped, a), (x,)
    yield partial(jax.debug.print, "{}"), (x,)
    yield lambda a: jax.debug.callback(lambda _: None, a), (x,)
    yield lambda a: checkpoint_name(a, "name"), (x,)
    yield jax.device_put, (x,)
    yield lambda a: lax.with_sharding_constraint(a, sharding), (x,)
    yield lambda a: lax.linalg.triangular_solve(a, a, left_side=True), (m,)
    yield lambda a: lax.linalg.tridiagonal_solve(a, a, a, a[:, None]), (x,)
    yield lambda a: lax.linalg.symmetric_product(a, a), (m,)
    yield lambda a: lax.linalg.householder_product(a, a[0]), (m,)
    yield lambda a: lax.linalg.qr(a, full_matrices=False), (m,)
    yield lambda a: lax.linalg.cholesky_update(a, a[0]), (m,)
    yield lax.linalg.schur, (m,)
    yield lambda a: lax.linalg.svd(a, full_matrices=False), (m,)
    yield lambda a: lax.fft(a, "RFFT", (3,)), (x,)
    yield lambda a: lax.fft(a, "IRFFT", (4,)), (m.astype(jnp.complex64),)
    yield lambda a: lax.rng_uniform(0.0, a[0], (3,)), (x,)
    yield lambda a: lax.rng_bit_generator(a, (3,)), (jnp.zeros(4, jnp.uint32),)
    yield jax.random.clone, (k,)
    yield lambda a: jax.random.wrap_key_data(jax.random.key_data(a)), (k,)
    yield jax.random.key, (jnp.int32(1),)
    yield lambda a: jax.random.gamma(k, a), (x,)
    yield lambda a: lax.mulhi(a, a), (jnp.arange(3),)
    yield lambda a: lax.ragged_dot(a, a[None], jnp.array([3])), (m,)
    yield lambda a: lax.tile(a, (2,)), (x,)
    yield lambda a: lax.empty((3,), jnp.float32) + a, (x,)
    yield mapped(lambda a: lax.psum(a, "i")), (x,)
    for collective in (
        lambda a: lax.psum(a, "i"),
        lambda a: lax.pmax(a, "i"),
        lambda a: lax.pmin(a, "i"),
        lambda a: lax.ppermute(a, "i", [(0, 0)]),
        lambda a: lax.all_gather(a, "i", tiled=True),
        lambda a: lax.all_to_all(a, "i", 0, 0, tiled=True),
        lambda a: lax.psum_scatter(a, "i", tiled=True),
        lambda a: a + lax.axis_index("i"),
    ):
        yield sharded(collective), (x,)
        yield (
            jax.shard_map(collective, mesh=mesh, in_specs=spec, out_specs=spec),
            (x,),
        )


def record() -> dict[str, Any]:
    """Trace all of it."""
    seen = Seen()
    failed = 0
    for function, arguments in _special():
        failed += not _trace(seen, function, *arguments)
        for derived in _derivatives(function):
            _trace(seen, derived, *arguments)
    sets = _argument_sets()
    for function in _functions():
        for arguments in sets:
            if _trace(seen, function, *arguments):
                for derived in _derivatives(function):
                    _trace(seen, derived, *arguments)
    version = importlib.metadata.version("jax")
    return {"jax": version, "failed": failed, "primitives": seen.as_json()}


def main() -> None:
    """Write the corpus file."""
    warnings.simplefilter("ignore")
    FILE.write_text(json.dumps(record(), indent=1) + "\n")


if __name__ == "__main__":
    main()
