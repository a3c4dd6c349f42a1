"""An unmodified flax nnx model runs on symbolic zeros for its biases.

The claim: when each bias of an nnx model is replaced by `Zeros`, the model gives the same as with
biases that hold zeros, and the additions of them are gone from the program: adding `Zeros` is the
other operand itself. The zeros take no memory, and none is ever written out.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq
from typedqax.arrays import ZEROS, Zeros

try:
    from flax import nnx
except ImportError as error:
    sys.exit(
        f"zero_biases_nnx.py: {error.msg}; it is in the extra: pip install 'typedqax[examples]'"
    )


class Model(nnx.Module):
    """A model as anyone writes it."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(8, 32, rngs=rngs)
        self.norm = nnx.LayerNorm(32, rngs=rngs)
        self.last = nnx.Linear(32, 4, rngs=rngs)

    def __call__(self, x: Float[Array, "batch 8"]) -> Float[Array, "batch 4"]:
        """What the model gives."""
        return self.last(nnx.relu(self.norm(self.first(x))))


def main() -> None:
    """Replace the biases, and look at the program."""
    graph, state = nnx.split(Model(nnx.Rngs(0)))
    dense = nnx.to_pure_dict(state)
    symbolic = jax.tree.map_with_path(
        lambda path, p: Zeros(shape=p.shape, dtype=p.dtype) if path[-1].key == "bias" else p, dense
    )

    def run(params: Any, x: Float[Array, "batch 8"]) -> Float[Array, "batch 4"]:
        filled = jax.tree.map(lambda variable: variable, state)
        nnx.replace_by_pure_dict(filled, params)
        return nnx.merge(graph, filled)(x)

    x = jax.random.normal(jax.random.key(0), (16, 8))
    with tq.materialization("error"):
        lean = tq.use_implicit_args(run, handlers=ZEROS)
        assert jnp.array_equal(lean(symbolic, x), run(dense, x))

    before, after = (jax.make_jaxpr(f)(p, x) for f, p in ((run, dense), (lean, symbolic)))

    def additions(jaxpr: Any) -> int:
        return sum(eqn.primitive.name == "add" for eqn in jaxpr.jaxpr.eqns)

    print(f"additions: {additions(before)} -> {additions(after)}")
    assert additions(before) - additions(after) == 3


if __name__ == "__main__":
    main()
