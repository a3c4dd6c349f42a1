"""The rest of "Qax: A library for simplifying research prototyping": LoRA, identity, LoRA of it.

The code is the document's. What had to change:

* the import is `import typedqax as qax`, and those that the document leaves out are added.
* `lhs_contract == x.ndim - 1` compares a tuple with an int, as does `rhs_contract == 0`, so that
  the handler would always decline: they are compared with tuples.
* GPT-Neo's 2.7B weights become a small random configuration, and the tokenizer's ids are given.
* it wraps the model in `wrapped_model` and then calls `model_fn`, which nothing defines.
* `jax.core.get_aval` is `jax.typeof` now.
* the identity's handler did not ask which axes are contracted; along other ones than in `a @ b`,
  the product with an identity is the other matrix transposed.
* what stands at the level of a module is in a function, so that each test runs its own.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: UP007, RET504
# The document's handlers are not annotated further, and its unions are those of its time.

from dataclasses import InitVar, dataclass
from functools import partial
from typing import Union

import jax
import jax.numpy as jnp

import typedqax as qax

# --- slightly-less-mini LoRA ---------------------------------------------------------------------


@dataclass
class LoraMatrix(qax.ImplicitArray):
    # Question #1 is answered by defining dataclass fields
    W : jax.Array
    A : jax.Array
    B : jax.Array

    some_metadata : str = qax.aux_field(default="hello")

    # Question #3 is answered by defining a `materialize()` method
    def materialize(self):
        return self.W + self.A @ self.B.T


# Question #2 is answered by defining custom primitive handlers
@qax.primitive_handler("dot_general")
def lora_matmul(primitive, x, lora : LoraMatrix, *, dimension_numbers, **kwargs):
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers

    # Verify that the operation is just `x @ lora`
    if not (
        lhs_contract == (x.ndim - 1,)
        and rhs_contract == (0,)
        and lhs_batch == rhs_batch == ()
    ):
        # Returning `NotImplemented` defers to the handler which just
        # materializes all the arguments
        return NotImplemented

    do_dot = partial(qax.default_handler, primitive, dimension_numbers=dimension_numbers, **kwargs)
    result = do_dot(x, lora.W)
    xa = do_dot(x, lora.A)
    xab = do_dot(xa, lora.B.T)

    return result + xab


def with_lora(params):
    def iter_keys(key):
        while True:
            key, subkey = jax.random.split(key)
            yield subkey
    key = jax.random.PRNGKey(0)
    key_it = iter_keys(key)

    # Difference 1: Transform/replace params to use some ImplicitArray type
    rank = 16
    lora_params = jax.tree_util.tree_map_with_path(
        lambda path, param:
            param
            if param.ndim != 2 or any(
                isinstance(p, jax.tree_util.DictKey) and p.key == "embedding" for p in path
            ) else
            LoraMatrix(
                W=param,
                A=jax.random.normal(next(key_it), (param.shape[0], rank)),
                B=jnp.zeros((param.shape[1], rank)),
            ),
        params
    )
    return lora_params


def next_token(model, lora_params, inputs):
    # Difference 2: Wrap the model or function in `qax.use_implicit_args`
    wrapped_model = qax.use_implicit_args(model)
    logits = wrapped_model(inputs, params=lora_params).logits

    # Get the next token prediction
    return logits[0, -1].argmax()


# --- symbolic identity matrix --------------------------------------------------------------------


@dataclass
class Eye(qax.ImplicitArray):
    dim : InitVar[int]

    def __init__(self, dim, dtype=jnp.float32):
        super().__init__(shape=(dim, dim), dtype=dtype)

    def materialize(self):
        return jnp.eye(self.shape[0], dtype=self.dtype)


@qax.primitive_handler(jax.lax.dot_general_p)
def dot_handler(
    primitive,
    lhs : Union[Eye,jax.Array],
    rhs : Union[Eye,jax.Array],
    *, dimension_numbers, **kwargs
):
    lhs_aval = jax.typeof(lhs)
    rhs_aval = jax.typeof(rhs)

    out_aval = jax.eval_shape(
        partial(qax.default_handler, primitive, dimension_numbers=dimension_numbers, **kwargs),
        lhs_aval, rhs_aval
    )

    lhs_is_eye = isinstance(lhs, Eye)
    rhs_is_eye = isinstance(rhs, Eye)

    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    # I'm only implementing 1-2D x 2D matmuls since it's 1 AM
    # and I can only fully conceptualize dot_general during the day
    if not (
        1 <= lhs.aval.ndim <= 2
        and rhs.aval.ndim <= 2
        and len(lhs_contract) == len(rhs_contract) == 1
        and (lhs_contract, rhs_contract) == ((lhs.aval.ndim - 1,), (0,))
        and lhs_batch == rhs_batch == ()
    ):
        return NotImplemented

    if lhs_is_eye and rhs_is_eye:
        return Eye(out_aval.shape[0], dtype=out_aval.dtype)

    result = rhs if lhs_is_eye else lhs
    return result.astype(out_aval.dtype)


@qax.use_implicit_args
def f(a, b):
    return a @ b


def matmul_with_identity() -> None:
    w = Eye(3)
    x = jnp.arange(39, dtype=jnp.float32).reshape(3, 13)

    print(f(w, x))


# --- nesting -------------------------------------------------------------------------------------


def identity_plus_low_rank() -> None:
    dim = 128
    rank = 16
    eye_plus_low_rank = LoraMatrix(
        W=Eye(dim),
        A=jax.random.normal(jax.random.PRNGKey(0), (dim, rank)),
        B=jnp.zeros((dim, rank))
    )

    x = jax.random.normal(jax.random.PRNGKey(1), (73, dim))

    print(jnp.sum(f(x, eye_plus_low_rank)))
