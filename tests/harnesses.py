"""JAX's own examples of each primitive, with one array argument at a time made implicit.

`python -m tests.harnesses` runs all of them, `--sample 200 --seed 1` a random part. Each is run
eagerly and jitted, with a class that has no handlers, and again with a handler that passes every
primitive on while nothing may become dense. None may differ from the dense run.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

import typedqax as tq
from typedqax import ops


class Wrapped(tq.ImplicitArray, materialization="allow"):
    """An array that is what it holds."""

    x: tq.ArrayValue

    def materialize(self) -> jax.Array:
        return self.x


def pass_on(op: ops.AnyOp, *operands: Any, **params: Any) -> Any:
    """The primitive on what is held, its results held in turn."""
    held = [each.x if isinstance(each, Wrapped) else each for each in operands]
    results = op.primitive.bind(*held, **params)
    if isinstance(results, (list, tuple)):
        return [_hold(each) for each in results]
    return _hold(results)


def _hold(result: Any) -> Any:
    return Wrapped(result) if isinstance(result, jax.Array) else result


PASS_ON = tq.HandlerTable("pass on", ops.any_primitive.to(pass_on))


def all_harnesses() -> list[Any]:
    """JAX's harnesses (importing them needs absl-py, and builds them all)."""
    from jax._src.internal_test_util import test_harnesses

    return list(test_harnesses.all_harnesses)


def sample(harnesses: Sequence[Any], count: int | None, seed: int) -> list[Any]:
    """`count` of them; all without a count."""
    if count is None or count >= len(harnesses):
        return list(harnesses)
    return random.Random(seed).sample(list(harnesses), count)


def differences(harness: Any, *, jitted: bool = True) -> Iterator[str]:
    """What differs from the dense run, a sentence each; nothing where JAX cannot run it either."""
    args = harness.dyn_args_maker(np.random.RandomState(0))
    f = harness.dyn_fun
    ways: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f}
    if jitted:
        ways["jit"] = jax.jit
    for way, wrap in ways.items():
        try:
            want = wrap(f)(*args)
        except Exception:  # noqa: BLE001  # whatever JAX raises is none of ours
            continue
        for place, arg in enumerate(args):
            if not isinstance(arg, (jax.Array, np.ndarray, np.generic)):
                continue
            for handlers, block in _builds():
                wrapped = [*args[:place], Wrapped(jax.numpy.asarray(arg)), *args[place + 1 :]]
                name = f"{harness.fullname}, argument {place}, {way}, {handlers}"
                try:
                    with block:
                        got = wrap(tq.use_implicit_args(f, handlers=handlers))(*wrapped)
                        problem = _difference(tq.materialize(got), want)
                except Exception as error:  # noqa: BLE001  # the report goes on with the next one
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    where = f"{last.filename}:{last.lineno}"
                    problem = f"{type(error).__name__}: {str(error)[:300]} at {where}"
                if problem:
                    yield f"{name}: {problem}"


def _builds() -> list[tuple[tq.HandlerTable | None, AbstractContextManager[None]]]:
    return [(None, nullcontext()), (PASS_ON, tq.materialization("error"))]


def _difference(got: Any, want: Any) -> str:
    got_leaves, got_tree = jax.tree.flatten(got)
    want_leaves, want_tree = jax.tree.flatten(want)
    if got_tree != want_tree:
        return f"gives {got_tree}, not {want_tree}"
    for one, other in zip(got_leaves, want_leaves, strict=True):
        own, due = (np.shape(one), one.dtype), (np.shape(other), other.dtype)
        if own != due:
            return f"gives {own}, not {due}"
        if jax.numpy.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)  # noqa: PLW2901
        if not _equal(np.asarray(one), np.asarray(other)):
            return "gives other numbers"
    return ""


def _equal(one: Any, other: Any) -> bool:
    if one.dtype.kind in "fc":
        return bool(np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True))
    if one.dtype.kind == "V":  # bfloat16 and its like
        return bool(
            np.array_equal(one.astype(np.float64), other.astype(np.float64), equal_nan=True)
        )
    return bool(np.array_equal(one, other))


def main() -> int:
    """Run them from the command line; the number of those that differ is printed last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--group", default=None, help="only harnesses of this primitive")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [h for h in all_harnesses() if options.group in (None, h.group_name)]
    chosen = sample(chosen, options.sample, options.seed)
    bad = 0
    for count, harness in enumerate(chosen, 1):
        found = list(differences(harness))
        bad += bool(found)
        for each in found:
            print(each, flush=True)
        if count % 100 == 0:
            print(f"... {count} of {len(chosen)}, {bad} differ", flush=True)
            jax.clear_caches()
    print(f"{len(chosen)} harnesses, {bad} differ")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
