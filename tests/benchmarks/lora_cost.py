"""What LoRA costs once compiled, beside LoRA written into the model by hand: flops, instructions.

    python -m tests.benchmarks.lora_cost > lora_cost.json

Two programs: `x @ w`, and the whole training step of `examples/lora_gpt2.py`'s model, whose dense
layer is replaced by one that holds its own adapters. Both must cost exactly the same as with
`LoraMatrix` on the unmodified model. Counts are of the compiled program, so nothing here is timed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.traverse_util import flatten_dict, unflatten_dict
from jax import Array
from transformers import FlaxGPT2LMHeadModel, GPT2Config
from transformers.models.gpt2 import modeling_flax_gpt2

import typedqax as tq
from typedqax.arrays import LORA, LoraMatrix

ALPHA, RANK = 0.5, 4
CONFIG = GPT2Config(vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=4)


class HandWritten(nn.Module):
    """GPT-2's dense layer with LoRA written into it: the weight is stored `(out, in)`."""

    features: int
    use_bias: bool = True
    dtype: Any = jnp.float32
    precision: Any = None

    @nn.compact
    def __call__(self, x: Array) -> Array:
        zeros, width = nn.initializers.zeros, x.shape[-1]
        kernel = self.param("kernel", nn.initializers.normal(0.02), (self.features, width))
        bias = self.param("bias", zeros, (self.features,))
        a = self.param("lora_a", zeros, (self.features, RANK))
        b = self.param("lora_b", zeros, (width, RANK))
        return x @ kernel.T + (ALPHA * (x @ b)) @ a.T + bias


def cost(f: Callable[..., Any], *operands: Any) -> dict[str, float]:
    """Flops and instructions of `f` compiled for the operands."""
    compiled = jax.jit(f).lower(*operands).compile()
    analysis = compiled.cost_analysis()
    instructions = re.findall(r"^\s*(?:ROOT )?%?[\w.-]+ = ", compiled.as_text() or "", re.MULTILINE)
    return {"flops": (analysis or {})["flops"], "instructions": len(instructions)}


def product() -> dict[str, dict[str, float]]:
    """The cost of one product, both ways."""
    x, w = jnp.ones((16, 32)), jnp.ones((32, 24))
    a, b = jnp.ones((32, RANK)), jnp.ones((24, RANK))

    def by_hand(x: Array, w: Array, a: Array, b: Array) -> Array:
        return x @ w + (ALPHA * (x @ a)) @ b.T

    def with_lora(x: Array, w: Array, a: Array, b: Array) -> Array:
        lora = LoraMatrix(w=w, a=a, b=b, alpha=ALPHA)
        return tq.use_implicit_args(jnp.matmul, handlers=LORA)(x, lora)

    return {"by_hand": cost(by_hand, x, w, a, b), "typedqax": cost(with_lora, x, w, a, b)}


def step() -> dict[str, dict[str, float]]:
    """The cost of a training step of GPT-2, both ways."""
    model = FlaxGPT2LMHeadModel(CONFIG, _do_init=False)
    weights = jax.eval_shape(lambda: model.init_weights(jax.random.key(0), (1, 8)))
    base = dict(flatten_dict(weights, sep="/"))
    sizes = {path: w.shape for path, w in base.items() if path.endswith("/kernel")}
    adapters = {path: (jnp.ones((m, RANK)), jnp.ones((n, RANK))) for path, (m, n) in sizes.items()}
    tokens = jnp.zeros((2, 16), jnp.int32)
    optimizer = optax.adamw(1e-3)

    def step_of(model: Any, params_of: Any, transform: Any) -> Callable[..., Any]:
        def plain_loss(params: Any, tokens: Array, key: Array) -> Any:
            logits = model(tokens, params=params, dropout_rng=key, train=True).logits
            losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:])
            return losses.mean()

        loss = transform(plain_loss)

        def run(adapters: Any, state: Any, base: Any, tokens: Array, key: Array) -> Any:
            def of_adapters(adapters: Any) -> Any:
                return loss(unflatten_dict(params_of(base, adapters), sep="/"), tokens, key)

            value, grads = jax.value_and_grad(of_adapters)(adapters)
            updates, state = optimizer.update(grads, state, adapters)
            return optax.apply_updates(adapters, updates), state, value

        return run

    def implicit(base: Any, adapters: Any) -> Any:
        lora = {
            path: LoraMatrix(w=base[path], a=a, b=b, alpha=ALPHA)
            for path, (a, b) in adapters.items()
        }
        return base | lora

    def beside(base: Any, adapters: Any) -> Any:
        more: dict[str, Array] = {}
        for path, (a, b) in adapters.items():
            layer = path.removesuffix("/kernel")
            more |= {f"{layer}/lora_a": a, f"{layer}/lora_b": b}
        return base | more

    operands = adapters, optimizer.init(adapters), base, tokens, jax.random.key(0)
    unmodified = step_of(model, implicit, lambda f: tq.use_implicit_args(f, handlers=LORA))
    implicit_cost = cost(unmodified, *operands)
    vars(modeling_flax_gpt2)["FlaxConv1D"] = HandWritten
    rewritten = FlaxGPT2LMHeadModel(CONFIG, _do_init=False)
    return {
        "by_hand": cost(step_of(rewritten, beside, lambda f: f), *operands),
        "typedqax": implicit_cost,
    }


def main() -> None:
    """Print both comparisons as JSON; the exit status says whether they are equal."""
    with tq.materialization("error"):
        results = {"product": product(), "gpt2_step": step()}
    json.dump(results, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(both["by_hand"] != both["typedqax"] for both in results.values()))


if __name__ == "__main__":
    main()
