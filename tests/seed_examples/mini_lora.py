"""Mini-LoRA, the first example of "Qax: A library for simplifying research prototyping".

The code is the document's; the import is changed, and those that it leaves out are added.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The document's handler and `materialize` are not annotated further.

from dataclasses import dataclass

import jax

import typedqax as qax


@dataclass
class LoraMatrix(qax.ImplicitArray):
    W : jax.Array
    A : jax.Array
    B : jax.Array

    def materialize(self):
        return self.W + self.A @ self.B.T


@qax.primitive_handler("dot_general")
def lora_matmul(primitive, x, lora : LoraMatrix, **kwargs):
    return x @ lora.W + x @ lora.A @ lora.B.T
