"""What an implicit array is not."""

from jax import Array
from jaxtyping import Float

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.w


class Zeros(tq.ImplicitArray):
    def materialize(self) -> Array:
        raise RuntimeError


def wants_lora(x: Float[Lora, "m n"]) -> None: ...


def calls(dense: Array, zeros: Zeros, lora: Lora) -> None:
    # E[mypy]: arg-type: has incompatible type "Array"; expected "Lora"
    # E[pyright]: reportArgumentType: "Array" is not assignable to "Lora"
    wants_lora(dense)
    # E[mypy]: arg-type: has incompatible type "Zeros"; expected "Lora"
    # E[pyright]: reportArgumentType: "Zeros" is not assignable to "Lora"
    wants_lora(zeros)
    # E[mypy]: arg-type: has incompatible type "Array"; expected "Lora"
    # E[pyright]: reportArgumentType: "Array" is not assignable to "Lora"
    wants_lora(lora.T)
    # E[mypy]: arg-type: has incompatible type "Array"; expected "Lora"
    # E[pyright]: reportArgumentType: "Array" is not assignable to "Lora"
    wants_lora(tq.materialize(lora))
    if tq.is_implicit(dense):
        # E[mypy]: attr-defined: "ImplicitArray" has no attribute "w"
        # E[pyright]: reportAttributeAccessIssue: Attribute "w" is unknown
        print(dense.w)
    # E[mypy]: operator: Unsupported operand types for @ ("Lora" and "str")
    # E[pyright]: reportOperatorIssue: Operator "@" not supported for types "Lora" and "Literal['x']"
    print(lora @ "x")


def forgets_to_materialize(lora: Lora) -> None:
    # E[mypy]: call-arg: Too many arguments for "materialize" of "Lora"
    # E[pyright]: reportCallIssue: Expected 0 positional arguments
    lora.materialize(lora)
    # E[mypy]: arg-type: Argument 1 to "wants_lora" has incompatible type "Callable[[], Array]"
    # E[pyright]: reportArgumentType: is not assignable to "Lora"
    wants_lora(lora.materialize)
