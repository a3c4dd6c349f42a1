"""custom_linear_solve: its functions close over implicit arrays; its vectors are dense.

JAX stages all four functions of a solve, and runs two of them, the transposed operator and its
solve, where a derivative is pulled back alone. Whether one will be cannot be known here: a function
may be staged first and differentiated later, as in `grad` of `jit`, and then nothing is called that
could say what becomes dense. So it is said, and refused, when it is staged: "in the backward pass".
"""

from __future__ import annotations

import itertools
from typing import Any

import jax

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of
from typedqax._call import Call
from typedqax._higher_order._rewrite import (
    Conform,
    Slot,
    conform_values,
    rewrite,
    slots_of,
)
from typedqax._jax import ClosedJaxpr
from typedqax._leafwise import is_empty
from typedqax._value import is_value

REASON = "the vectors of a linear solve are dense"
REMEDY = "solve for a dense array"


def linear_solve(call: Call) -> list[Any]:
    """Apply a linear solve whose functions close over implicit arrays."""
    lengths, jaxprs = call.params["const_lengths"], call.params["jaxprs"]
    values, arguments = list(call.values), list(call.arguments)
    consts: list[list[Any]] = []
    known: list[list[Argument | None]] = []
    for length in lengths:
        consts.append(values[:length])
        known.append(arguments[:length])
        values, arguments = values[length:], arguments[length:]
    vectors = [Slot.dense(aval_of(v)) if is_value(v) else Slot.of(v) for v in values]
    name = call.primitive.name
    with _jax.under(call.trace.parent):
        conform = Conform.alike(tuple(vectors), name, REASON, REMEDY)
        values = conform_values(call.trace, values, arguments, conform)
    rewritten: list[ClosedJaxpr | None] = []
    operands: list[list[Any]] = []
    for jaxpr, own, origins in zip(jaxprs, consts, known, strict=True):
        if jaxpr is None:
            rewritten.append(None)
            operands.append([])
            continue
        dense = Conform.alike(
            tuple([Slot.dense(aval) for aval in jaxpr.out_avals]), name, REASON, REMEDY
        )
        slots = (*slots_of(own), *vectors)
        function = rewrite(call.trace, jaxpr, slots, origins, dense)
        rewritten.append(function.jaxpr)
        given = function.operands(own)
        with _jax.under(call.trace.parent):
            operands.append(
                [
                    leaf if jaxpr is jaxprs.matvec and not is_empty(leaf) else _constant(leaf)
                    for leaf in given
                ]
            )
    params = dict(
        call.params,
        const_lengths=type(lengths)(*map(len, operands)),
        jaxprs=type(jaxprs)(*rewritten),
    )
    leaves = [*itertools.chain(*operands), *values]
    return list(_jax.bind_under(call.trace.parent, call.primitive, leaves, params))


def _constant(leaf: Any) -> Any:
    """`leaf` without a tangent.

    The derivative of a solve is one of its operator and right side alone; JAX's rule fails where
    others have tangents and these have none.
    """
    return jax.lax.stop_gradient(leaf)
