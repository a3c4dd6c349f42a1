"""The primitives that stand for an implicit array, and for materializing, in what JAX stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
from jax.tree_util import PyTreeDef

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._jax import Params, Primitive
from typedqax._value import ImplicitValue

implicit_array_p: Primitive = Primitive("implicit_array")
"""From the leaves of an implicit array, with their `structure` as the param, that array.

To JAX it is the dense array. A transform around takes it for what it is, whatever handlers decide
in it, and so JAX may remember what it staged; `_primitive_rules` says what it is where none is.
"""


def as_equation(value: ImplicitValue) -> jax.Array:
    """`value` as the result of an equation, under the current trace."""
    leaves, structure = jax.tree.flatten(value)
    operands = [_jax.canonicalize(leaf) for leaf in leaves]
    one: jax.Array = _jax.bind(implicit_array_p, operands, {"structure": structure})
    return one


def of_equation(params: Params, operands: Sequence[Any]) -> Any:
    """The implicit array that an equation stands for."""
    structure: PyTreeDef = params["structure"]
    return jax.tree.unflatten(structure, operands)


def _abstract(*leaves: Any, **params: Any) -> Any:
    value = of_equation(params, leaves)
    return _jax.varying_as(aval_of(value), value)


implicit_array_p.def_abstract_eval(_abstract)


materialize_p: Primitive = Primitive("materialize")
"""The dense array of its operand, where that turns out to be implicit; else the operand."""

materialize_p.def_abstract_eval(lambda aval: aval)

PRIMITIVES: Final = frozenset({implicit_array_p, materialize_p})
"""Those of this module: nothing becomes dense for one of them."""
