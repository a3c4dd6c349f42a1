"""Mistakes in handing a call on, in decorated handlers and in what is installed."""

from typing import Any

import jax.numpy as jnp
from jax import Array

import typedqax as tq
from typedqax import ops


class Zeros(tq.ImplicitArray):
    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


def forgets_the_op(x: Zeros, y: Array, /, **params: Any) -> Array:
    # E[mypy]: call-overload: No overload variant of "default_handler" matches argument types "Zeros", "Array"
    # E[mypy]: no-any-return: Returning Any from function declared to return "Array"
    # E[pyright]: reportCallIssue: No overloads for "default_handler" match
    # E[pyright]: reportArgumentType: "Zeros" is incompatible with protocol
    return tq.default_handler(x, y, **params)


def misnames_the_op(x: Zeros, y: Array, /, **params: Any) -> Array:
    # E[mypy]: attr-defined: Module has no attribute "mull"
    # E[pyright]: reportAttributeAccessIssue: "mull" is not a known attribute of module
    return tq.default_handler(ops.mull, x, y, **params)


def takes_one_result_of_many(x: Zeros, /, *, k: int, **params: Any) -> Array:
    # E[mypy]: return-value: got "list[Array]", expected "Array"
    # E[pyright]: reportReturnType: "list[Array]" is not assignable to "Array"
    return tq.default_handler(ops.top_k, x, k=k, **params)


def ignores_that_it_may_decline(x: Zeros, y: Array) -> Array:
    # E[mypy]: return-value: got "Array | Declined", expected "Array"
    # E[pyright]: reportReturnType: "Declined" is not assignable to "Array"
    return may_decline(None, x, y)


@tq.primitive_handler("mul")
def may_decline(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> Array | tq.Declined:
    return x if y.ndim else tq.DECLINE


# E[mypy]: arg-type: Argument "precedence" to "primitive_handler" has incompatible type "str"; expected "int"
# E[pyright]: reportArgumentType: parameter "precedence"
@tq.primitive_handler("mul", precedence="high")
def urgent(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> Zeros:
    return x


# E[mypy]: call-arg: Unexpected keyword argument "priority" for "primitive_handler"
# E[pyright]: reportCallIssue: No parameter named "priority"
@tq.primitive_handler("mul", priority=1)
def prior(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> Zeros:
    return x


# E[mypy]: arg-type: Argument 1 to "primitive_handler" has incompatible type "def not_called(Any, Zeros, Array, /, **params: Any) -> Zeros"
# E[pyright]: reportArgumentType: parameter "primitive"
@tq.primitive_handler
def not_called(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> Zeros:
    return x


# E[mypy]: arg-type: Argument 1 to "primitive_handler" has incompatible type "int"
# E[pyright]: reportArgumentType: parameter "primitive"
@tq.primitive_handler(3)
def by_number(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> Zeros:
    return x


# E[mypy]: type-var: cannot be "def gives_text(Any, Zeros, Array, /, **params: Any) -> str"
# E[pyright]: reportArgumentType: "str" is not assignable
@tq.primitive_handler("mul")
def gives_text(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> str:
    return "zero"


def installs_what_is_no_table(x: Zeros) -> None:
    # E[mypy]: arg-type: Argument 1 to "install" has incompatible type
    # E[pyright]: reportArgumentType: is not assignable to "HandlerTable"
    tq.install(may_decline)
    # E[mypy]: arg-type: Argument 1 to "installed" has incompatible type "str"; expected "HandlerTable"
    # E[pyright]: reportArgumentType: is not assignable to "HandlerTable"
    with tq.installed("lora"):
        pass
    # E[mypy]: call-arg: Too many arguments for "declaring"
    # E[pyright]: reportCallIssue: Expected 0 positional arguments
    with tq.declaring("lora"):
        pass
