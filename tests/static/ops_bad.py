"""Mistakes in handlers, in how they are declared, and in the use of ops."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from typedqax import ops


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return jnp.asarray(self.w)


# --- the number of operands ----------------------------------------------------------------------


def one(x: Lora, /, **params: Any) -> Lora:
    return x


def two(x: Lora, y: Array, /, **params: Any) -> Lora:
    return x


def three(x: Lora, y: Array, z: Array, /, **params: Any) -> Lora:
    return x


def none(**params: Any) -> Array:
    return jnp.zeros(3)


# E[mypy]: arg-type: "to" of "BinaryOp" has incompatible type "def one(Lora, /, **params: Any) -> Lora"
# E[pyright]: reportArgumentType: too few positional parameters; expected 2 but received 1
ops.add.to(one)
# E[mypy]: arg-type: has incompatible type "def three(Lora, Array, Array, /
# E[pyright]: reportArgumentType: too many positional parameters; expected 2 but received 3
ops.add.to(three)
# E[mypy]: arg-type: "to" of "UnaryOp" has incompatible type "def two(Lora, Array, /
# E[pyright]: reportArgumentType: too many positional parameters; expected 1 but received 2
ops.neg.to(two)
# E[mypy]: arg-type: has incompatible type "def none(**params: Any) -> Array"
# E[pyright]: reportArgumentType: too few positional parameters; expected 1 but received 0
ops.neg.to(none)
# E[mypy]: arg-type: incompatible type "def one(Lora, /, **params: Any) -> Lora"; expected "def [Y: Array] (Lora, Y, /, *, dimension_numbers:
# E[pyright]: reportArgumentType: too few positional parameters; expected 2 but received 1
ops.dot_general.to(one)
# E[mypy]: arg-type: "to" of "TernaryOp" has incompatible type "def two(
# E[pyright]: reportArgumentType: too few positional parameters; expected 3 but received 2
ops.clamp.to(two)
# E[mypy]: attr-defined: has no attribute "to"
# E[pyright]: reportAttributeAccessIssue: Cannot access attribute "to" for class "NullaryOp
ops.iota.to(one)


# --- operands that are no arrays -----------------------------------------------------------------


def text_operand(x: Lora, y: str, /) -> Lora:
    return x


def number_operand(x: Lora, y: float, /) -> Lora:
    return x


def list_operand(x: list[Lora], /) -> Array:
    return x[0]


# E[mypy]: type-var: Value of type variable "Y" of "to" of "BinaryOp" cannot be "str"
# E[pyright]: reportArgumentType: is incompatible with type "str"
ops.add.to(text_operand)
# E[mypy]: type-var: cannot be "float"
# E[pyright]: reportArgumentType: is incompatible with type "float"
ops.mul.to(number_operand)
# E[mypy]: type-var: cannot be "list[Lora]"
# E[pyright]: reportArgumentType: is incompatible with type "list[Lora]"
ops.neg.to(list_operand)


# --- params --------------------------------------------------------------------------------------


def misspelt(
    x: Array, w: Lora, /, *, dimension_number: lax.DotDimensionNumbers, **params: Any
) -> Array:
    return x


def mistyped(x: Array, w: Lora, /, *, dimension_numbers: int, **params: Any) -> Array:
    return x


def not_taken(x: Array, w: Lora, /) -> Array:
    return x


def one_not_taken(x: Array, w: Lora, /, *, dimension_numbers: lax.DotDimensionNumbers) -> Array:
    return x


def unknown(x: Lora, /, *, axis: int) -> Lora:
    return x


def of_another_op(w: Lora, /, *, permutation: tuple[int, ...]) -> Lora:
    return w


def text_param(w: Lora, /, *, permutation: str) -> Lora:
    return w


# E[mypy]: arg-type: def misspelt(Array, Lora, /, *, dimension_number:
# E[pyright]: reportArgumentType: Extra parameter "dimension_number"
ops.dot_general.to(misspelt)
# E[mypy]: arg-type: dimension_numbers: int, **params: Any) -> Array"; expected "def (Array, Lora, /, *, dimension_numbers: tuple[
# E[pyright]: reportArgumentType: Keyword parameter "dimension_numbers" of type
ops.dot_general.to(mistyped)
# E[mypy]: arg-type: "Callable[[Array, Lora], Array]"; expected "def (Array, Lora, /, *, dimension_numbers:
# E[pyright]: reportArgumentType: Missing keyword parameter "dimension_numbers"
ops.dot_general.to(not_taken)
# E[mypy]: arg-type: has incompatible type "def one_not_taken(
# E[pyright]: reportArgumentType: Missing keyword parameter "precision"
ops.dot_general.to(one_not_taken)
# E[mypy]: arg-type: def unknown(Lora, /, *, axis: int) -> Lora"; expected "Callable[[Lora], Lora]"
# E[pyright]: reportArgumentType: Extra parameter "axis"
ops.neg.to(unknown)
# E[mypy]: arg-type: permutation: tuple[int, ...]) -> Lora"; expected "def (Lora, /, *, dimensions:
# E[pyright]: reportArgumentType: Extra parameter "permutation"
ops.reshape.to(of_another_op)
# E[mypy]: arg-type: permutation: str) -> Lora"; expected "def (Lora, /, *, permutation: tuple[int, ...]) -> Lora"
# E[pyright]: reportArgumentType: Keyword parameter "permutation" of type "tuple[int, ...]" is incompatible with type "str"
ops.transpose.to(text_param)


def reads_a_wrong_key(params: ops.DotGeneralParams) -> object:
    # E[mypy]: typeddict-item: has no key "dimension_number"
    # E[pyright]: reportGeneralTypeIssues: "dimension_number" is not a defined key in "DotGeneralParams"
    return params["dimension_number"]


# --- results -------------------------------------------------------------------------------------


def gives_none(x: Lora, y: Array) -> None:
    print(x, y)


def gives_text(x: Lora, y: Array) -> str:
    return "zero"


def gives_a_list(x: Lora, y: Array) -> list[Array]:
    return [x, y]


def gives_one(x: Lora, /, *, k: int, axis: int) -> Array:
    return x


# E[mypy]: no-untyped-def: missing a return type annotation
# E[pyright]: none: the type is inferred, and right
def not_annotated(x: Lora, y: Array):
    return x


# E[mypy]: return: Missing return statement
# E[pyright]: reportReturnType: must return value on all code paths
def forgets_to_return(x: Lora, y: Array) -> Lora:
    x.materialize()


def declines_undeclared(x: Lora, y: Array) -> Lora:
    # E[mypy]: return-value: got "Declined", expected "Lora"
    # E[pyright]: reportReturnType: "Literal[Declined.DECLINE]" is not assignable to "Lora"
    return tq.DECLINE


def may_give_none(x: Lora, y: Array) -> Lora | None:
    return None


# E[mypy]: type-var: "R" of "to" of "BinaryOp" cannot be "None"
# E[pyright]: reportArgumentType: Function return type "None" is incompatible
ops.add.to(gives_none)
# E[mypy]: type-var: cannot be "str"
# E[pyright]: reportArgumentType: Function return type "str" is incompatible
ops.add.to(gives_text)
# E[mypy]: type-var: cannot be "list[Array]"
# E[pyright]: reportArgumentType: Function return type "list[Array]" is incompatible
ops.add.to(gives_a_list)
# E[mypy]: type-var: "Rs" of "to" of "MultiUnaryOp" cannot be "Array"
# E[pyright]: reportArgumentType: "Array" is not assignable to "Sequence[Array]"
ops.top_k.to(gives_one)
# E[mypy]: type-var: cannot be "Lora | None"
# E[pyright]: reportArgumentType: Function return type "Lora | None" is incompatible
ops.add.to(may_give_none)


# --- declaring -----------------------------------------------------------------------------------


def add(x: Lora, y: Array) -> Lora:
    return x


def negative(x: Lora) -> Lora:
    return x


# E[mypy]: attr-defined: Module has no attribute "dot_generl"
# E[pyright]: reportAttributeAccessIssue: "dot_generl" is not a known attribute of module "typedqax.ops"
ops.dot_generl.to(one)
# E[mypy]: arg-type: Argument "precedence" to "to" of "BinaryOp" has incompatible type "str"; expected "int"
# E[pyright]: reportArgumentType: parameter "precedence" of type "int"
ops.add.to(add, precedence="high")
# E[mypy]: arg-type: Argument "commutative"
# E[pyright]: reportArgumentType: parameter "commutative" of type "bool"
ops.add.to(add, commutative=1)
# E[mypy]: call-arg: Unexpected keyword argument "commutative" for "to" of "UnaryOp"
# E[pyright]: reportCallIssue: No parameter named "commutative"
ops.neg.to(negative, commutative=True)
# E[mypy]: call-arg: Unexpected keyword argument "priority"
# E[pyright]: reportCallIssue: No parameter named "priority"
ops.add.to(add, priority=1)
# E[mypy]: call-arg: Unexpected keyword argument "handler"
# E[pyright]: reportCallIssue: Expected 1 more positional argument
ops.add.to(handler=add)
# E[mypy]: call-arg: Too many positional arguments for "to"
# E[pyright]: reportCallIssue: Expected 1 positional argument
ops.add.to(add, 1)
# E[mypy]: arg-type: "to" of "BinaryOp" has incompatible type "str"
# E[pyright]: reportArgumentType: "Literal['add']" is not assignable to type
ops.add.to("add")
# E[mypy]: call-arg: Too few arguments for "to"
# E[pyright]: reportCallIssue: Expected 1 more positional argument
ops.add.to()
# E[mypy]: arg-type: incompatible type "Callable[[Lora, Array], Lora]"; expected "Rule | HandlerTable"
# E[pyright]: reportArgumentType: "FunctionType" is not assignable to "Rule"
tq.HandlerTable("lora", add)
# E[mypy]: arg-type: expected "Rule | HandlerTable"
# E[pyright]: reportArgumentType: is not assignable to "Rule"
tq.HandlerTable("lora", ops.add)
# E[mypy]: arg-type: Argument 1 to "HandlerTable" has incompatible type "Rule"; expected "str"
# E[pyright]: reportArgumentType: "Rule" is not assignable to "str"
tq.HandlerTable(ops.add.to(add))


# --- groups --------------------------------------------------------------------------------------


def without_the_op(x: Lora, y: Array, /, **params: Any) -> Lora:
    return x


def of_other_ops(op: ops.UnaryOp, x: Lora, y: Array, /, **params: Any) -> Lora:
    return x


def no_axes(op: ops.UnaryOp, x: Lora, /) -> Lora:
    return x


# E[mypy]: operator: Unsupported operand types for | ("BinaryOp[[], []]" and "BinaryOp[[NamedArg(
# E[pyright]: reportOperatorIssue: Operator "|" not supported for types "BinaryOp[(), ()]" and "BinaryOp[(*, dimension_numbers:
mixed_params = ops.add | ops.dot_general
# E[mypy]: operator: ("BinaryOp[[], []]" and "UnaryOp[[], []]")
# E[pyright]: reportOperatorIssue: "BinaryOp[(), ()]" and "UnaryOp[(), ()]"
mixed_operands = ops.add | ops.neg
# E[mypy]: operator: and "str")
# E[pyright]: reportOperatorIssue: and "Literal['mul']"
no_op = ops.add | "mul"
# E[mypy]: operator: 'axes')
# E[pyright]: reportOperatorIssue: axes: tuple[int, ...]
mixed_reductions = ops.reduce_max | ops.cumsum
# E[mypy]: arg-type: "to" of "BinaryGroup" has incompatible type "def without_the_op(
# E[pyright]: reportArgumentType: too few positional parameters; expected 3 but received 2
(ops.add | ops.sub).to(without_the_op)
# E[mypy]: arg-type: "to" of "BinaryGroup" has incompatible type "def of_other_ops(
# E[pyright]: reportArgumentType: is not assignable to "UnaryOp[..., ...]"
(ops.add | ops.sub).to(of_other_ops)
# E[mypy]: arg-type: axes: tuple[int, ...]) -> Lora
# E[pyright]: reportArgumentType: Missing keyword parameter "axes"
(ops.reduce_max | ops.reduce_min).to(no_axes)
# E[mypy]: attr-defined: "BinaryGroup[[]]" has no attribute "bind"
# E[pyright]: reportAttributeAccessIssue: Cannot access attribute "bind" for class "BinaryGroup[()]"
(ops.add | ops.sub).bind(jnp.ones(3), jnp.ones(3))
# E[mypy]: arg-type: axis: int, reverse: bool) -> Lora
# E[pyright]: reportArgumentType: Missing keyword parameter "axis"
ops.cumulative.to(no_axes)
# E[mypy]: arg-type: expected "def (AnyOp, /, *Any, **Any) -> Lora"
# E[pyright]: reportArgumentType: "AnyOp" is not assignable to "Lora"
ops.any_primitive.to(add)


# --- any number of operands ----------------------------------------------------------------------


def join_no_params(*parts: Lora) -> Lora:
    return parts[0]


def join_wrong_type(*parts: Lora, dimension: str) -> Lora:
    return parts[0]


def join_text(*parts: Lora, dimension: int) -> str:
    return "joined"


# E[mypy]: arg-type: "def join_no_params(*parts: Lora) -> Lora"; expected "def (Never, /, *operands: Never, dimension: int) -> Lora"
# E[pyright]: reportCallIssue: No overloads for "to" match
# E[pyright]: reportArgumentType: Missing keyword parameter "dimension"
ops.concatenate.to(join_no_params)
# E[mypy]: arg-type: dimension: str) -> Lora
# E[pyright]: reportCallIssue: No overloads for "to" match
# E[pyright]: reportArgumentType: Keyword parameter "dimension" of type "int" is incompatible with type "str"
ops.concatenate.to(join_wrong_type)
# E[mypy]: type-var: "R" of "to" of "VariadicOp" cannot be "str"
# E[pyright]: reportCallIssue: No overloads for "to" match
# E[pyright]: reportArgumentType: Function return type "str" is incompatible
ops.concatenate.to(join_text)


# --- bind and out_aval ---------------------------------------------------------------------------


def binding(x: Lora, y: Array, numbers: lax.DotDimensionNumbers) -> None:
    # E[mypy]: call-arg: did you mean "dimension_numbers"?
    # E[pyright]: reportCallIssue: No parameter named "dimension_number"
    # E[pyright]: reportCallIssue: missing for parameter "dimension_numbers"
    ops.dot_general.bind(x, y, dimension_number=numbers)
    # E[mypy]: call-arg: Missing named argument "dimension_numbers"
    # E[pyright]: reportCallIssue: missing for parameter "dimension_numbers"
    ops.dot_general.bind(x, y)
    # E[mypy]: call-arg: Too few arguments for "bind"
    # E[pyright]: reportCallIssue: Expected 1 more positional argument
    ops.dot_general.bind(x, dimension_numbers=numbers)
    # E[mypy]: arg-type: Argument "dimension_numbers" to "bind" of "BinaryOp" has incompatible type "int"
    # E[pyright]: reportArgumentType: parameter "dimension_numbers" of type "DotDimensionNumbers"
    ops.dot_general.bind(x, y, dimension_numbers=3)
    # E[mypy]: call-arg: Too many positional arguments for "bind"
    # E[pyright]: reportCallIssue: Expected 2 positional arguments
    ops.dot_general.bind(x, y, numbers)
    # E[mypy]: arg-type: Argument 2 to "bind" of "BinaryOp" has incompatible type "str"
    # E[pyright]: reportArgumentType: parameter "y" of type "ArrayLike"
    ops.add.bind(x, "y")
    # E[mypy]: call-arg: Too many arguments for "bind"
    # E[pyright]: reportCallIssue: Expected 2 positional arguments
    ops.add.bind(x, y, y)
    # E[mypy]: call-arg: Unexpected keyword argument "axis"
    # E[pyright]: reportCallIssue: No parameter named "axis"
    ops.neg.bind(x, axis=0)
    # E[mypy]: arg-type: incompatible type "int"; expected "tuple[int, ...]"
    # E[pyright]: reportArgumentType: parameter "permutation" of type "tuple[int, ...]"
    ops.transpose.bind(x, permutation=3)
    # E[mypy]: arg-type: incompatible type "list[Array]"
    # E[pyright]: reportArgumentType: parameter "operands" of type "ArrayLike"
    ops.concatenate.bind([x, y], dimension=0)
    # E[mypy]: call-arg: Missing named argument "dimension"
    # E[pyright]: reportCallIssue: missing for parameter "dimension"
    ops.concatenate.bind(x, y)
    # E[mypy]: arg-type: Argument 2 to "out_aval" of "BinaryOp" has incompatible type "str"
    # E[pyright]: reportArgumentType: parameter "y" of type
    ops.add.out_aval(x, "y")
    # E[mypy]: assignment: expression has type "list[Array]", variable has type "Array"
    # E[pyright]: reportAssignmentType: "list[Array]" is not assignable to declared type "Array"
    first: Array = ops.lu.bind(x)
    # E[mypy]: attr-defined: has no attribute "shap"
    # E[pyright]: reportAttributeAccessIssue: Cannot access attribute "shap"
    print(ops.neg.bind(x).shap)
    # E[mypy]: misc: Property "primitive" defined in "AnyOp" is read-only
    # E[mypy]: assignment: variable has type "Primitive"
    # E[pyright]: reportAttributeAccessIssue: Cannot assign to attribute "primitive"
    ops.add.primitive = None
