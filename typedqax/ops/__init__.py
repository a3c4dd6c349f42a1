"""Every primitive of JAX as a typed object, and groups of them.

ops.dot_general.to(matmul)          # the rule that `matmul` computes dot_general
(ops.mul | ops.div).to(scale)       # a group's handler is given the op first
ops.transpose.bind(x, permutation=(1, 0))

`dir(ops)` lists the names and `ops.listed()` gives the ops: one for each primitive that the JAX
that runs has. `ops.dot_general.params` are the names
of its params, and `help(ops.dot_general)` says what it computes.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from typedqax import _jax
from typedqax._jax import Primitive
from typedqax._rule import Target
from typedqax.ops import _generated
from typedqax.ops._any import AnyGroup, AnyOp, UnlistedOp
from typedqax.ops._generated import *  # noqa: F403  # each op and its params, as listed there
from typedqax.ops._op import (
    BinaryGroup,
    BinaryOp,
    HigherOrderOp,
    MixedGroup,
    MultiBinaryGroup,
    MultiBinaryOp,
    MultiQuaternaryGroup,
    MultiQuaternaryOp,
    MultiUnaryGroup,
    MultiUnaryOp,
    MultiVariadicOp,
    NullaryOp,
    QuaternaryGroup,
    QuaternaryOp,
    TernaryGroup,
    TernaryOp,
    UnaryGroup,
    UnaryOp,
    VariadicOp,
)

__all__ = [
    "AnyGroup",
    "AnyOp",
    "BinaryGroup",
    "BinaryOp",
    "HigherOrderOp",
    "MixedGroup",
    "MultiBinaryGroup",
    "MultiBinaryOp",
    "MultiQuaternaryGroup",
    "MultiQuaternaryOp",
    "MultiUnaryGroup",
    "MultiUnaryOp",
    "MultiVariadicOp",
    "NullaryOp",
    "QuaternaryGroup",
    "QuaternaryOp",
    "TernaryGroup",
    "TernaryOp",
    "UnaryGroup",
    "UnaryOp",
    "UnlistedOp",
    "VariadicOp",
    "any_primitive",
    "computing",
    "cumulative",
    "elementwise_binary",
    "elementwise_unary",
    "find",
    "listed",
    "of_primitive",
    "reductions",
    "structural",
]
__all__ += _generated.__all__

# What is generated is of the newest JAX that the library knows; an older one has less.
_generated_ops: Final = {name: op for name, op in vars(_generated).items() if isinstance(op, AnyOp)}
_absent: Final = {name: op for name, op in _generated_ops.items() if not op.is_in_jax}
if not TYPE_CHECKING:
    for _name in _absent:
        __all__.remove(_name)
        del globals()[_name]

_listed: Final = tuple(op for name, op in _generated_ops.items() if name not in _absent)
_by_attribute: Final = {op.attribute: op for op in _listed}
_by_name: Final = {op.name: op for op in _listed}


def listed() -> tuple[AnyOp, ...]:
    """Every op of this namespace."""
    return tuple(_by_name.values())


def find(wanted: Primitive | str, /) -> AnyOp | None:
    """The op of a primitive, or of a name: `"scatter_add"` as here, `"scatter-add"` as in JAX.

    A primitive that merely has the name of another (Pallas has its own `gather`) has no op.
    """
    if isinstance(wanted, str):
        return _by_attribute.get(wanted) or _by_attribute.get(f"{wanted}_") or _by_name.get(wanted)
    op = _by_name.get(wanted.name)
    return op if op is not None and op.stands_for(wanted) else None


def computing(function: str, /) -> AnyOp | None:
    """The op by which JAX computes a function of this name that is no primitive, if there is one.

    >>> from typedqax import ops
    >>> ops.computing("einsum")
    ops.dot_general
    """
    for attribute, names in _COMPUTE.items():
        if function in names.split():
            return _by_attribute.get(attribute)
    return None


def of_primitive(primitive: Primitive, /) -> AnyOp:
    """The op of `primitive`; for one that is not listed here, an op that knows no params."""
    return find(primitive) or UnlistedOp(primitive)


class _EveryOp(MixedGroup):
    """Every primitive, listed or not."""

    __slots__ = ()

    def targets(self) -> tuple[Target, ...]:
        """One target, `"*"`; its `first` gives the op of the primitive that was met."""
        return (Target("*", of_primitive),)


elementwise_unary: Final[UnaryGroup[...]] = UnaryGroup[...](
    "ops.elementwise_unary",
    _generated.abs,
    _generated.acos,
    _generated.acosh,
    _generated.asin,
    _generated.asinh,
    _generated.atan,
    _generated.atanh,
    _generated.bessel_i0e,
    _generated.bessel_i1e,
    _generated.cbrt,
    _generated.ceil,
    _generated.clz,
    _generated.conj,
    _generated.copy,
    _generated.cos,
    _generated.cosh,
    _generated.digamma,
    _generated.erf,
    _generated.erf_inv,
    _generated.erfc,
    _generated.exp,
    _generated.exp2,
    _generated.expm1,
    _generated.floor,
    _generated.imag,
    _generated.integer_pow,
    _generated.is_finite,
    _generated.lgamma,
    _generated.log,
    _generated.log1p,
    _generated.logistic,
    _generated.neg,
    _generated.not_,
    _generated.population_count,
    _generated.real,
    _generated.reduce_precision,
    _generated.round,
    _generated.rsqrt,
    _generated.sign,
    _generated.sin,
    _generated.sinh,
    _generated.sqrt,
    _generated.square,
    _generated.stop_gradient,
    _generated.tan,
    _generated.tanh,
)
"""Functions of each element by itself, but for conversion to another dtype."""

elementwise_binary: Final[BinaryGroup[...]] = BinaryGroup[...](
    "ops.elementwise_binary",
    _generated.add,
    _generated.add_jaxvals,
    _generated.and_,
    _generated.atan2,
    _generated.complex,
    _generated.div,
    _generated.eq,
    _generated.eq_to,
    _generated.ge,
    _generated.gt,
    _generated.igamma,
    _generated.igamma_grad_a,
    _generated.igammac,
    _generated.le,
    _generated.le_to,
    _generated.lt,
    _generated.lt_to,
    _generated.max,
    _generated.min,
    _generated.mul,
    _generated.mulhi,
    _generated.ne,
    _generated.nextafter,
    _generated.or_,
    _generated.polygamma,
    _generated.pow,
    _generated.rem,
    _generated.shift_left,
    _generated.shift_right_arithmetic,
    _generated.shift_right_logical,
    _generated.sub,
    _generated.xor,
    _generated.zeta,
)
"""Functions of two elements at the same place."""

reductions: Final[UnaryGroup[...]] = UnaryGroup[...](
    "ops.reductions",
    _generated.reduce_and,
    _generated.reduce_max,
    _generated.reduce_min,
    _generated.reduce_or,
    _generated.reduce_prod,
    _generated.reduce_sum,
    _generated.reduce_xor,
)
"""Elements combined along `axes` into one of their kind."""

cumulative: Final = UnaryGroup(
    "ops.cumulative",
    _generated.cumlogsumexp,
    _generated.cummax,
    _generated.cummin,
    _generated.cumprod,
    _generated.cumsum,
)
"""Running combinations of the elements along `axis`."""

structural: Final[UnaryGroup[...]] = UnaryGroup[...](
    "ops.structural",
    _generated.broadcast_in_dim,
    _generated.reshape,
    _generated.rev,
    _generated.slice,
    _generated.squeeze,
    _generated.tile,
    _generated.transpose,
)
"""The elements of one operand moved, cut or repeated, none of them changed."""

any_primitive: Final = _EveryOp("ops.any_primitive", *_listed)
"""What to do before an implicit array is materialized, whatever the primitive."""

_COMPUTE: Final = {
    "abs": "absolute fabs",
    "acos": "arccos",
    "acosh": "arccosh",
    "and_": "bitwise_and logical_and",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "broadcast_in_dim": "broadcast_to expand_dims full full_like ones ones_like zeros zeros_like",
    "concatenate": "append concat",
    "cond": "switch",
    "conj": "conjugate",
    "conv_general_dilated": "conv conv_with_general_padding",
    "convert_element_type": "astype",
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
    "div": "divide true_divide",
    "dot_general": "batch_matmul dot einsum inner matmul matvec tensordot vdot vecdot",
    "eq": "equal",
    "gather": "take take_along_axis",
    "ge": "greater_equal",
    "gt": "greater",
    "iota": "arange broadcasted_iota",
    "is_finite": "isfinite",
    "le": "less_equal",
    "logistic": "sigmoid",
    "lt": "less",
    "max": "clip maximum relu",
    "min": "minimum",
    "mul": "multiply outer",
    "ne": "isnan not_equal",
    "neg": "negative",
    "not_": "bitwise_not invert logical_not",
    "or_": "bitwise_or logical_or",
    "pow": "float_power power",
    "reduce_and": "all",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "reduce_or": "any",
    "reduce_prod": "prod",
    "reduce_sum": "average mean sum",
    "rem": "fmod mod remainder",
    "remat": "checkpoint",
    "reshape": "ravel",
    "rev": "flip fliplr flipud",
    "round": "around rint",
    "scan": "map",
    "select_n": "select tril triu where",
    "shift_left": "bitwise_left_shift left_shift",
    "shift_right_arithmetic": "bitwise_right_shift right_shift",
    "sort": "argsort",
    "sub": "subtract",
    "transpose": "matrix_transpose moveaxis permute_dims swapaxes",
    "while_": "fori_loop while_loop",
    "xor": "bitwise_xor logical_xor",
}
"""By op, functions of JAX that have another name than the op that computes them."""

if not TYPE_CHECKING:  # for a type checker, a name that is not here stays a mistake

    def __getattr__(name: str) -> object:
        """Say which op was meant."""
        raise AttributeError(f"typedqax.ops has no {name!r}{_meant(name)}", name=name)


def _meant(name: str) -> str:
    """Which op it is that `name` means in JAX, or which names are like it."""
    if name.startswith("_"):  # what Python itself asks for
        return ""
    if name in _absent:
        return f": this JAX, {_jax.VERSION}, has no primitive {_absent[name].name}"
    same = find(name.removesuffix("_p"))
    if same is not None:
        return f"; the op of that primitive is {same!r}"
    op = computing(name)
    if op is not None:
        return f", since {name} is no primitive: JAX computes it by {op!r}"
    near = difflib.get_close_matches(name, __all__, n=3)
    if not near:
        return "; dir(typedqax.ops) lists the names"
    return f"; did you mean {' or '.join(f'ops.{each}' for each in near)}?"


# Errors, reprs and pickles show the names that users import.
for _name in __all__:
    if isinstance(_class := globals()[_name], type):
        _class.__module__ = __name__
