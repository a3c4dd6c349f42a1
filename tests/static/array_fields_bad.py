"""Mistakes in the fields of a class, and in calls of its constructor."""

import dataclasses
from dataclasses import InitVar, dataclass

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w + self.alpha * self.a


@dataclass
class Decorated(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w + self.alpha * self.a


def calls(w: Array, a: Array) -> None:
    # E[mypy]: call-arg: Missing positional argument "a" in call to "Lora"
    # E[pyright]: reportCallIssue: Argument missing for parameter "a"
    Lora(w)
    # E[mypy]: call-arg: Missing positional argument "a" in call to "Decorated"
    # E[pyright]: reportCallIssue: Argument missing for parameter "a"
    Decorated(w)
    # E[mypy]: call-arg: Unexpected keyword argument "scale" for "Lora"
    # E[pyright]: reportCallIssue: No parameter named "scale"
    Lora(w, a, scale=2.0)
    # E[mypy]: arg-type: Argument 2 to "Lora" has incompatible type "str"; expected "Array"
    # E[pyright]: reportArgumentType: "Literal['a']" is not assignable to "Array"
    Lora(w, "a")
    # E[mypy]: arg-type: Argument 3 to "Lora" has incompatible type "str"; expected "float"
    # E[pyright]: reportArgumentType: "Literal['half']" is not assignable to "float"
    Lora(w, a, "half")
    # E[mypy]: arg-type: Argument 3 to "Decorated" has incompatible type "str"; expected "float"
    # E[pyright]: reportArgumentType: "Literal['half']" is not assignable to "float"
    Decorated(w, a, "half")
    # E[mypy]: call-arg: Too many positional arguments for "Lora"
    # E[pyright]: reportCallIssue: Expected 3 positional arguments
    Lora(w, a, 1.0, (3, 4))
    # E[mypy]: arg-type: Argument "shape" to "Lora" has incompatible type "int"
    # E[pyright]: reportArgumentType: parameter "shape"
    Lora(w, a, shape=3)
    # E[mypy]: arg-type: Argument "dtype" to "Lora" has incompatible type "float"
    # E[pyright]: reportArgumentType: parameter "dtype"
    Lora(w, a, dtype=1.5)


def attributes(lora: Lora) -> None:
    # E[mypy]: attr-defined: "Lora" has no attribute "ww"
    # E[pyright]: reportAttributeAccessIssue: Attribute "ww" is unknown
    lora.ww
    # E[mypy]: assignment: expression has type "str", variable has type "float"
    # E[pyright]: reportAttributeAccessIssue: "Literal['half']" is not assignable to "float"
    lora.alpha = "half"
    # E[mypy]: attr-defined: "Lora" has no attribute "scale"
    # E[pyright]: reportAttributeAccessIssue: Attribute "scale" is unknown
    lora.scale = 2.0


class WrongDefaults(tq.ImplicitArray):
    # E[mypy]: assignment: expression has type "str", variable has type "float"
    # E[pyright]: reportAssignmentType: "str" is not assignable to "float"
    alpha: float = tq.aux_field(default="half")
    # E[mypy]: arg-type: expected "Callable[[], tuple[str, ...]]"
    # E[pyright]: reportAssignmentType: "list[Unknown]" is not assignable to "tuple[str, ...]"
    names: tuple[str, ...] = tq.aux_field(default_factory=list)
    # E[mypy]: call-overload: No overload variant of "aux_field" matches argument types
    # E[pyright]: reportCallIssue: No overloads for "aux_field" match
    both: int = tq.aux_field(default=1, default_factory=int)

    def materialize(self) -> Array:
        return jnp.zeros(3)


class MisspeltOption(tq.ImplicitArray):
    # E[mypy]: call-overload: Unexpected keyword argument "defualt"
    # E[mypy]: call-overload: No overload variant of "aux_field" matches argument type "int"
    # E[pyright]: reportCallIssue: No overloads for "aux_field" match
    typo: int = tq.aux_field(defualt=1)

    def materialize(self) -> Array:
        return jnp.zeros(3)


class DefaultFirst(tq.ImplicitArray):
    alpha: float = tq.aux_field(default=1.0)
    # E[mypy]: misc: Attributes without a default cannot follow attributes with one
    # E[pyright]: reportGeneralTypeIssues: Fields without default values cannot appear after
    w: Array

    def materialize(self) -> Array:
        return self.w


@dataclass
class DefaultFirstDecorated(tq.ImplicitArray):
    alpha: float = tq.aux_field(default=1.0)
    # E[mypy]: misc: Attributes without a default cannot follow attributes with one
    # E[pyright]: reportGeneralTypeIssues: Fields without default values cannot appear after
    w: Array

    def materialize(self) -> Array:
        return self.w


class Quantized(tq.ImplicitArray):
    dense: InitVar[Float[Array, "m n"]]
    q: Int[Array, "m n"] = dataclasses.field(init=False)

    def __post_init__(self, dense: Array) -> None:
        self.q = jnp.round(dense).astype(jnp.int8)

    def materialize(self) -> Array:
        return self.q.astype(jnp.float32)


def an_init_var_is_no_attribute(quantized: Quantized, dense: Array) -> None:
    # E[mypy]: attr-defined: "Quantized" has no attribute "dense"
    # E[pyright]: reportAttributeAccessIssue: "dense" is an init-only field
    quantized.dense
    # E[mypy]: call-arg: Unexpected keyword argument "q" for "Quantized"
    # E[pyright]: reportCallIssue: No parameter named "q"
    Quantized(dense, q=dense)


class WrongPostInit(tq.ImplicitArray):
    dense: InitVar[Float[Array, "m n"]]

    # E[mypy]: override: Argument 2 of "__post_init__" is incompatible with supertype "dataclass"
    # E[pyright]: reportGeneralTypeIssues: Dataclass __post_init__ method parameter type mismatch
    def __post_init__(self, dense: str) -> None: ...

    def materialize(self) -> Array:
        return jnp.zeros(3)


class HidesMembers(tq.ImplicitArray):
    """Names that a jax.Array has already; the class is refused when it is made, too."""

    # E[mypy]: assignment: Incompatible types in assignment
    # E[pyright]: reportIncompatibleMethodOverride: "T" incorrectly overrides property of same name
    T: int
    # E[mypy]: assignment: Incompatible types in assignment
    # E[pyright]: reportIncompatibleMethodOverride: "mean"
    mean: float

    def materialize(self) -> Array:
        return jnp.zeros(3)


class Constant(tq.ImplicitArray):
    value: float = tq.aux_field()

    def __init__(self, value: float, shape: tuple[int, ...]) -> None:
        # E[mypy]: call-arg: Too many positional arguments for "__init__" of "ImplicitArray"
        # E[pyright]: reportCallIssue: Expected 0 positional arguments
        super().__init__(shape)
        # E[mypy]: call-arg: Unexpected keyword argument "shapes" for "__init__" of "ImplicitArray"
        # E[pyright]: reportCallIssue: No parameter named "shapes"
        super().__init__(shapes=shape)
        self.value = value

    def materialize(self) -> Array:
        return jnp.full(self.shape, self.value)


class WrongDefaultShape(tq.ImplicitArray):
    # E[mypy]: assignment: expression has type "int"
    # E[pyright]: reportAssignmentType: "Literal[3]" is not assignable
    default_shape = 3
    # E[mypy]: assignment: expression has type "float"
    # E[pyright]: reportAssignmentType: "float" is not assignable
    default_dtype = 1.5

    # E[mypy]: override: Return type "int" of "compute_shape" incompatible with return type
    # E[pyright]: reportIncompatibleMethodOverride: Return type mismatch
    def compute_shape(self) -> int:
        return 3

    # E[mypy]: override: Return type "float" of "compute_dtype" incompatible with return type
    # E[pyright]: reportIncompatibleMethodOverride: Return type mismatch
    def compute_dtype(self) -> float:
        return 1.5

    def materialize(self) -> Array:
        return jnp.zeros(3)


# E[mypy]: none: mypy says it of the next line
# E[pyright]: reportGeneralTypeIssues: A frozen class cannot inherit from a class that is not frozen
@dataclass(frozen=True)
# E[mypy]: misc: Frozen dataclass cannot inherit from a non-frozen dataclass
# E[pyright]: none: pyright says it of the line before
class Frozen(tq.ImplicitArray):
    w: Array

    def materialize(self) -> Array:
        return self.w
