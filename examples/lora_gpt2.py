"""Fine-tune the unmodified GPT-2 of HuggingFace transformers with LoRA.

    python examples/lora_gpt2.py --steps 200 --rank 8 --alpha 1.0 --seed 0

The claim: every attention and MLP weight of `FlaxGPT2LMHeadModel` becomes a `LoraMatrix`, and
nothing else changes, neither the model nor the loss nor the training step. The model stores these
weights transposed, so its own code first transposes a LoRA matrix and then multiplies by it.

What is shown and asserted:

1. With random adapters, loss and gradients are those of the plain model with `w + alpha*a@b.T` put
   into its parameters, to 1e-10 in float64.
2. No LoRA matrix is ever made dense: that is an error all the way through.
3. Training changes the adapters alone: the base is the same, bit for bit.
4. The merged dense model gives the same logits, and a sample is drawn from the trained one.

The model is small and starts from random weights, so nothing is downloaded; the text is the
language reference that ships with Python.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import partial
from pydoc_data.topics import topics
from typing import Any, NamedTuple, NoReturn, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

import typedqax as tq
from typedqax.arrays import LORA, LoraMatrix

try:
    import optax
    from flax.traverse_util import flatten_dict, unflatten_dict
    from tqdm import tqdm
    from transformers import FlaxGPT2LMHeadModel, GPT2Config
except ImportError as error:
    sys.exit(f"lora_gpt2.py: {error.msg}; it is in the extra: pip install 'typedqax[examples]'")

LENGTH, BATCH, END = 64, 16, 0
CONFIG = GPT2Config(
    vocab_size=128,  # one token a character of ASCII; 0 ends a text
    n_positions=LENGTH,
    n_embd=128,
    n_layer=2,
    n_head=4,
    initializer_range=0.1,
    bos_token_id=END,
    eos_token_id=END,
    pad_token_id=END,
)


class Adapter(NamedTuple):
    """The trainable part of one weight."""

    a: Float[Array, "m r"]
    b: Float[Array, "n r"]


Base: TypeAlias = dict[str, Array]
Adapters: TypeAlias = dict[str, Adapter]
Tokens: TypeAlias = Int[Array, "batch length"]


def new_base(model: Any, seed: int) -> Base:
    """Random parameters of the model, by the path of each."""
    params = jax.jit(model.init_weights, static_argnums=1)(jax.random.key(seed), (1, 1))
    by_path: Any = flatten_dict(params, sep="/")
    return dict(by_path)


def new_adapters(base: Base, rank: int, key: Array, *, b_scale: float) -> Adapters:
    """Adapters for all attention and MLP weights; `b` is zero when training starts."""

    def adapter(w: Array, key: Array) -> Adapter:
        for_a, for_b = jax.random.split(key)
        a = jax.random.normal(for_a, (w.shape[0], rank)) / math.sqrt(rank)
        return Adapter(a, b_scale * jax.random.normal(for_b, (w.shape[1], rank)))

    kernels = [path for path in base if path.endswith("/kernel")]
    keys = jax.random.split(key, len(kernels))
    return {path: adapter(base[path], k) for path, k in zip(kernels, keys, strict=True)}


def with_lora(base: Base, adapters: Adapters, alpha: float) -> Any:
    """The parameters of the model, with a `LoraMatrix` where there is an adapter."""
    params = {
        path: LoraMatrix(w=w, a=adapters[path].a, b=adapters[path].b, alpha=alpha)
        if path in adapters
        else w
        for path, w in base.items()
    }
    return unflatten_dict(params, sep="/")


def with_sums(base: Base, adapters: Adapters, alpha: float) -> Any:
    """The parameters of the model with each adapter added to its weight: LoRA without typedqax."""
    params = {
        path: w + alpha * adapters[path].a @ adapters[path].b.T if path in adapters else w
        for path, w in base.items()
    }
    return unflatten_dict(params, sep="/")


def model_loss(model: Any, params: Any, tokens: Tokens, dropout: Array) -> Float[Array, ""]:
    """The mean cross entropy of each next character, as for any model."""
    logits = model(tokens, params=params, dropout_rng=dropout, train=True).logits
    losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:])
    return jnp.mean(losses)


def model_logits(model: Any, params: Any, tokens: Tokens) -> Float[Array, "batch length vocab"]:
    """What the model says of each next character."""
    logits: Array = model(tokens, params=params).logits
    return logits


def batch(text: np.ndarray[Any, np.dtype[np.int32]], rng: np.random.Generator) -> Tokens:
    """Some random passages of the text."""
    starts = rng.integers(len(text) - LENGTH, size=(BATCH, 1))
    return jnp.asarray(text[starts + np.arange(LENGTH)])


def check_gradients(base: Base, rank: int, alpha: float, tokens: Tokens, seed: int) -> float:
    """The largest difference in loss and gradients from the plain model, in float64."""
    with jax.enable_x64(True):
        model = FlaxGPT2LMHeadModel(CONFIG, dtype=jnp.float64, _do_init=False)
        wide = {path: jnp.asarray(w, jnp.float64) for path, w in base.items()}
        key = jax.random.key(seed + 1)
        adapters = new_adapters(wide, rank, key, b_scale=0.02)

        def loss(params_of: Any, run: Any, adapters: Adapters) -> Any:
            return run(params_of(wide, adapters, alpha), tokens[:2], key)

        plain = partial(model_loss, model)
        lora = tq.use_implicit_args(plain, handlers=LORA)
        got = jax.jit(jax.value_and_grad(partial(loss, with_lora, lora)))(adapters)
        want = jax.jit(jax.value_and_grad(partial(loss, with_sums, plain)))(adapters)
        off = jax.tree.map(lambda x, y: jnp.max(jnp.abs(x - y)), got, want)
        return float(max(jax.tree.leaves(off)))


def training_step(loss: Any, optimizer: optax.GradientTransformation, alpha: float) -> Any:
    """One step of training the adapters, for a loss of the model's parameters."""
    lora_loss = tq.use_implicit_args(loss, handlers=LORA)

    def adapter_loss(adapters: Adapters, base: Base, tokens: Tokens, dropout: Array) -> Any:
        return lora_loss(with_lora(base, adapters, alpha), tokens, dropout)

    def step(adapters: Adapters, state: Any, base: Base, tokens: Tokens, dropout: Array) -> Any:
        value, grads = jax.value_and_grad(adapter_loss)(adapters, base, tokens, dropout)
        updates, state = optimizer.update(grads, state, adapters)
        return optax.apply_updates(adapters, updates), state, value

    return step


def train(model: Any, base: Base, adapters: Adapters, options: argparse.Namespace) -> Adapters:
    """Adapters after `options.steps` steps of AdamW; the loss is printed as it falls."""
    optimizer = optax.adamw(5e-3)
    step = jax.jit(training_step(partial(model_loss, model), optimizer, options.alpha))
    state = optimizer.init(adapters)
    text, rng = read_text(), np.random.default_rng(options.seed)
    losses: list[float] = []
    with tqdm(range(options.steps), unit="step") as progress:
        for i in progress:
            key = jax.random.fold_in(jax.random.key(options.seed), i)
            adapters, state, value = step(adapters, state, base, batch(text, rng), key)
            losses.append(float(value))
            progress.set_postfix(loss=f"{losses[-1]:.3f}")
            if i % max(1, options.steps // 5) == 0 or i == options.steps - 1:
                progress.write(f"step {i:5d}  loss {losses[-1]:.3f}", file=sys.stdout)
    assert options.steps < 20 or losses[-1] < losses[0], "the loss did not fall"
    return adapters


def read_text() -> np.ndarray[Any, np.dtype[np.int32]]:
    """The language reference as one long row of ASCII codes."""
    text = "\n".join(topics[name] for name in sorted(topics))
    return np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32)


def sample(model: Any, params: Any, seed: int) -> str:
    """Some characters that the model goes on with; its own sampling loop runs on LoRA matrices."""

    def generate(params: Any, prompt: Tokens) -> Array:
        options = {"do_sample": True, "temperature": 0.5, "max_length": LENGTH}
        key = jax.random.key(seed)
        tokens: Array = model.generate(prompt, params=params, prng_key=key, **options).sequences
        return tokens

    prompt = jnp.asarray([list(b"The ")])
    tokens = jax.jit(tq.use_implicit_args(generate, handlers=LORA))(params, prompt)
    return bytes(np.asarray(tokens[0], np.uint8)).decode("ascii").rstrip("\0")


def size(tree: Any) -> str:
    """How many numbers and bytes are in the arrays of `tree`."""
    leaves = jax.tree.leaves(tree)
    return f"{sum(x.size for x in leaves):,} parameters, {sum(x.nbytes for x in leaves):,} bytes"


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Leave with the complaint alone."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options, each within its bounds."""
    parser = Parser(prog="lora_gpt2.py", description="LoRA on an unmodified Flax GPT-2.")
    parser.add_argument("--steps", type=int, default=200, help="training steps (200)")
    parser.add_argument("--rank", type=int, default=8, help="rank of each adapter (8)")
    parser.add_argument("--alpha", type=float, default=1.0, help="multiplier of each update (1.0)")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (0)")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"argument --steps: at least 1, not {options.steps}")
    if not 1 <= options.rank <= CONFIG.n_embd:
        parser.error(f"argument --rank: from 1 to {CONFIG.n_embd}, not {options.rank}")
    if not math.isfinite(options.alpha) or options.alpha == 0:
        parser.error(f"argument --alpha: a finite number other than 0, not {options.alpha}")
    if not 0 <= options.seed < 2**31:
        parser.error(f"argument --seed: from 0 to 2**31 - 1, not {options.seed}")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Make the claims of this file's first lines, one after the other."""
    options = parse(arguments)
    model = FlaxGPT2LMHeadModel(CONFIG, _do_init=False)
    base = new_base(model, options.seed)
    before = {path: np.array(w) for path, w in base.items()}
    adapters = new_adapters(base, options.rank, jax.random.key(options.seed), b_scale=0.0)
    print(f"trainable: {size(adapters)}\ntotal:     {size((base, adapters))}")

    with tq.materialization("error"):
        tokens = batch(read_text(), np.random.default_rng(options.seed))
        off = check_gradients(base, options.rank, options.alpha, tokens, options.seed)
        print(f"loss and gradients differ from those of the plain model by at most {off:.1e}")
        assert off < 1e-10

        adapters = train(model, base, adapters, options)
        assert all(np.array_equal(before[path], w) for path, w in base.items())

        params = with_lora(base, adapters, options.alpha)
        merged = with_sums(base, adapters, options.alpha)
        logits = tq.use_implicit_args(partial(model_logits, model), handlers=LORA)(params, tokens)
        want = model_logits(model, merged, tokens)
        np.testing.assert_allclose(logits, want, rtol=1e-3, atol=1e-3)
        print(f"a sample: {sample(model, params, options.seed)!r}")


if __name__ == "__main__":
    main()
