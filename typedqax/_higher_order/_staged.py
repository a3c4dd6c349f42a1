"""Inner functions that are given dense arrays alone, and yet are a part of what was transformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from typedqax import _jax
from typedqax._higher_order._rewrite import is_jax_internal
from typedqax._jax import ClosedJaxpr, Jaxpr, Params, Primitive
from typedqax._primitives import implicit_array_p, materialize_p
from typedqax._run import Held
from typedqax._trace import ImplicitTracer

HOLDING: Final[Mapping[str, tuple[str, ...]]] = {
    "jit": ("jaxpr",),
    "cond": ("branches",),
    "scan": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
    "remat2": ("jaxpr",),
    "checkpoint": ("jaxpr",),
    "custom_vmap_call": ("call",),
    "custom_linear_solve": ("jaxprs",),
    "linear_call": ("callee",),
}
"""The primitives with functions that are differentiated, of those with a rule, and their params.

Not all params are looked at: that would take longer than what JAX does with such a primitive.
"""


def held(primitive: Primitive, params: Params) -> Held:
    """What a function that `primitive` calls holds, if that makes it a part of what runs."""
    found = Held.NOTHING
    for name in HOLDING[primitive.name]:
        param = params[name]
        for function in param if isinstance(param, tuple) else (param,):
            if function is not None:  # a linear solve need not have all
                found = max(found, _held(function))
    return found


def _held_uncached(function: ClosedJaxpr | Jaxpr) -> Held:
    if isinstance(function, ClosedJaxpr):
        if any(type(const) is ImplicitTracer for const in function.consts):
            return Held.ARRAY
        jaxpr: Jaxpr = function.jaxpr
    else:
        jaxpr = function
    return max(map(_held_by, jaxpr.eqns), default=Held.NOTHING)


def _held_by(eqn: Any) -> Held:
    if eqn.primitive in (implicit_array_p, materialize_p):
        return Held.ARRAY
    inner = max(map(_held, _functions_in(eqn.params)), default=Held.NOTHING)
    return max(inner, Held.RULE) if _has_rule(eqn.primitive, eqn.params) else inner


def _has_rule(primitive: Primitive, params: Params) -> bool:
    """Whether there is a derivative rule of a user's; those of relu and the like hold nothing."""
    return primitive.name == "custom_vjp_call" or (
        primitive.name == "custom_jvp_call" and not is_jax_internal(params["call_jaxpr"])
    )


def _functions_in(params: Params) -> Iterator[ClosedJaxpr | Jaxpr]:
    for param in params.values():
        for each in param if isinstance(param, tuple) else (param,):
            if isinstance(each, (ClosedJaxpr, Jaxpr)):
                yield each


_held: Callable[[Any], Held] = _jax.weakref_lru_cache(_held_uncached)
