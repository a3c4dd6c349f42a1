"""Mistakes that the transform must not hide."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.w


class Params(NamedTuple):
    w: Float[Array, "m n"]
    b: Float[Array, "n"]


def forward(params: Params, x: Array, *, train: bool = False) -> Array:
    return x @ params.w + params.b


@tq.use_implicit_args
def decorated(params: Params, x: Array) -> Array:
    return forward(params, x)


class Model:
    @tq.use_implicit_args
    def __call__(self, x: Array) -> Array:
        return x


def calls(lora: Lora, x: Array, model: Model) -> None:
    f = tq.use_implicit_args(forward)
    # E[mypy]: call-arg: Too few arguments
    # E[pyright]: reportCallIssue: Argument missing for parameter "x"
    f(Params(lora, x))
    # E[mypy]: arg-type: has incompatible type "Lora"; expected "Params"
    # E[pyright]: reportArgumentType: "Lora" is not assignable to "Params"
    f(lora, x)
    # E[mypy]: call-arg: Unexpected keyword argument "training"; did you mean "train"?
    # E[pyright]: reportCallIssue: No parameter named "training"
    f(Params(lora, x), x, training=True)
    # E[mypy]: call-arg: Too many arguments for "decorated"
    # E[pyright]: reportCallIssue: Expected 2 positional arguments
    decorated(Params(lora, x), x, x)
    # E[mypy]: call-arg: Too many arguments for "__call__" of "Model"
    # E[pyright]: reportCallIssue: Expected 1 positional argument
    model(x, lora)
    # E[mypy]: attr-defined: "Array" has no attribute "keys"
    # E[pyright]: reportAttributeAccessIssue: Attribute "keys" is unknown
    decorated(Params(lora, x), x).keys()


def options(lora: Lora) -> None:
    # E[mypy]: call-overload: Unexpected keyword argument "handler"
    # E[mypy]: call-overload: No overload variant of "use_implicit_args" matches argument types
    # E[pyright]: reportCallIssue: No overloads for "use_implicit_args" match
    tq.use_implicit_args(forward, handler=None)
    # E[mypy]: call-overload: No overload variant of "use_implicit_args" matches argument types
    # E[pyright]: reportArgumentType: is not assignable to "HandlerTable"
    tq.use_implicit_args(forward, handlers=[forward])
    # E[mypy]: call-overload: No overload variant of "use_implicit_args" matches argument type "Array"
    # E[pyright]: reportArgumentType: "Array" is not assignable
    tq.use_implicit_args(jnp.sin(lora))
    # E[mypy]: arg-type: Argument 1 to "materialization" has incompatible type
    # E[pyright]: reportArgumentType: parameter "policy"
    tq.materialization("never")
    # E[mypy]: arg-type: Argument 1 to "install" has incompatible type "list[HandlerTable]"
    # E[pyright]: reportArgumentType: "list[HandlerTable]" is not assignable to "HandlerTable"
    tq.install([tq.HandlerTable("t")])
    # E[mypy]: arg-type: Argument 1 to "HandlerTable" has incompatible type "HandlerTable"
    # E[pyright]: reportArgumentType: "HandlerTable" is not assignable to "str"
    tq.HandlerTable(tq.HandlerTable("t"))


def wrong_names(lora: Lora) -> None:
    # E[mypy]: attr-defined: Module has no attribute "use_implicit_arg"
    # E[pyright]: reportAttributeAccessIssue: "use_implicit_arg" is not a known attribute of module
    tq.use_implicit_arg(forward)
    # E[mypy]: attr-defined: Module has no attribute "implicit_array"
    # E[pyright]: reportAttributeAccessIssue: "implicit_array" is not a known attribute of module
    jax.jit(tq.implicit_array(lora))
