"""Functions with a derivative rule of their own, where the rule has to stay unused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from typedqax import _jax
from typedqax._errors import CustomRuleWarning
from typedqax._higher_order._dense import refusing_class
from typedqax._higher_order._rewrite import leaves_of, rebuild, slots_of
from typedqax._jax import Frame, Primitive, WrappedFun
from typedqax._materialization import warn_at
from typedqax._trace import ImplicitTrace


def without_rule(
    trace: ImplicitTrace, primitive: Primitive, function: WrappedFun, operands: Sequence[Any]
) -> list[Any] | None:
    """The results by handlers alone, where an operand must not become dense, as the rule needs it.

    None where no operand is of such a class. A derivative taken of the results says that it is not
    the rule's.
    """
    found = [refusing_class(trace.lower(operand), primitive.name) for operand in operands]
    refusing = next((cls for cls in found if cls is not None), None)
    if refusing is None:
        return None
    with _jax.under(trace):
        given = function.call_wrapped(*operands)
    results = [trace.lower(result) for result in given]
    arguments = [trace.argument_of(result) for result in given]
    about = _text(function, primitive, refusing)
    with _jax.under(trace.parent):
        leaves = _saying(about, _jax.user_frame(trace.place()), leaves_of(results))
    return list(map(trace.lift, rebuild(slots_of(results), leaves), arguments))


def _saying(about: str, applied: Frame | None, leaves: list[Any]) -> list[Any]:
    """The same leaves; whoever differentiates them is told what this is `about`."""

    @jax.custom_jvp
    def same(leaves: list[Any]) -> list[Any]:
        return leaves

    @same.defjvp
    def tell(primals: Any, tangents: Any) -> Any:
        # A function of JAX's own has no line of the user's in it: then it is where the
        # derivative is taken.
        frame = applied or Frame.of(_jax.running_frame())
        warn_at(frame, about, CustomRuleWarning)
        return primals[0], tangents[0]

    told: list[Any] = same(leaves)
    return told


def _text(function: WrappedFun, primitive: Primitive, cls: type) -> str:
    rule = primitive.name.removesuffix("_call")
    return (
        f"The derivative of {_jax.function_info(function)} is not that of its {rule} rule but of "
        f"the handlers that ran: the rule speaks of dense arrays, and {cls.__name__} is defined "
        f'with materialization="error".\n'
        f"Where the rule matters, call tq.materialize(...) on its arguments, or apply it inside "
        f'tq.materialization("allow", {cls.__name__}).'
    )
