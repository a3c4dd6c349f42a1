"""Explain the fine-tuning step of lora_gpt2.py on a whole GPT-2, without computing it.

    python examples/explain_gpt2.py --page explain_gpt2.html

The claim: of a model with 124 million parameters, of which not one exists, it is known in seconds
which handler runs for each weight, and on which line; and what would become dense.

What is shown and asserted:

1. In the step of lora_gpt2.py, every LoRA matrix is transposed and multiplied by a handler, and
   none becomes dense. The page shows it, in the scopes of the model.
2. With weight decay on the matrices themselves, each becomes dense, once: the explanation names
   the primitive that a handler is missing for, the line, the argument and the bytes.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float
from lora_gpt2 import (  # the other example; it says what is missing for it to run
    Adapters,
    Base,
    Parser,
    Tokens,
    model_loss,
    new_adapters,
    new_base,
    training_step,
)
from optax import adamw
from transformers import FlaxGPT2LMHeadModel, GPT2Config

import typedqax as tq

RANK, ALPHA, BATCH, LENGTH = 8, 1.0, 8, 512


def decayed_loss(model: Any, params: Any, tokens: Tokens, dropout: Array) -> Float[Array, ""]:
    """The loss with weight decay, on adapted matrices as on any other parameter."""
    decay = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params, is_leaf=is_matrix))
    loss: Array = model_loss(model, params, tokens, dropout) + 1e-4 * decay
    return loss


def is_matrix(leaf: Any) -> bool:
    return tq.is_implicit(leaf)


def shapes(layers: int) -> tuple[Any, Base, Adapters, Tokens]:
    """A GPT-2 and the arguments of its step: their shapes and dtypes, and nothing else."""
    tokens: Any = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
    model: Any = FlaxGPT2LMHeadModel(GPT2Config(n_layer=layers), _do_init=False)
    base = jax.eval_shape(partial(new_base, model, 0))
    adapters = jax.eval_shape(
        lambda base: new_adapters(base, RANK, jax.random.key(0), b_scale=0.0), base
    )
    return model, base, adapters, tokens


def explained(loss: Any, layers: int) -> Any:
    """What a training step with this loss does."""
    model, base, adapters, tokens = shapes(layers)
    optimizer = adamw(5e-3)
    state = jax.eval_shape(optimizer.init, adapters)
    step = training_step(partial(loss, model), optimizer, ALPHA)
    return tq.explain(step)(adapters, state, base, tokens, jax.random.key(1))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="explain_gpt2.py", description="Explain the fine-tuning step of a GPT-2.")
    parser.add_argument("--layers", type=int, default=12, help="layers of the model (12)")
    parser.add_argument("--page", type=Path, default=Path("explain_gpt2.html"), help="the page")
    options = parser.parse_args(arguments)
    if options.layers < 1:
        parser.error(f"argument --layers: at least 1, not {options.layers}")
    if not options.page.absolute().parent.is_dir():
        parser.error(f"argument --page: there is no folder {options.page.parent}")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Make the claims of this file's first lines, one after the other."""
    options = parse(arguments)
    matrices = 4 * options.layers

    start = time.perf_counter()
    step = explained(model_loss, options.layers)
    print(f"explained in {time.perf_counter() - start:.1f} s\n\n{step}\n")
    step.assert_no_materialization()
    assert step.handled == 2 * matrices

    decayed = explained(decayed_loss, options.layers)
    print(f"with weight decay:\n\n{decayed}\n")
    _, base, _, _ = shapes(options.layers)
    assert decayed.handled == step.handled
    assert decayed.missing == {"LoraMatrix": {"square": matrices}}
    assert decayed.nbytes == sum(4 * w.size for path, w in base.items() if "/kernel" in path)

    step.to_html(options.page)
    print(f"the step is shown in {options.page}")


if __name__ == "__main__":
    main()
