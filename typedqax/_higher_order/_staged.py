"""Inner functions that are given dense arrays alone, and yet are a part of what was transformed."""

from __future__ import annotations

from collections.abc import Iterator

from typedqax import _jax
from typedqax._higher_order._rewrite import is_jax_internal
from typedqax._jax import ClosedJaxpr, Jaxpr, Params, Primitive
from typedqax._trace import ImplicitTracer

HOLDING = frozenset(
    {
        "jit",
        "cond",
        "scan",
        "while",
        "remat2",
        "checkpoint",
        "custom_vmap_call",
        "custom_linear_solve",
    }
)
"""The primitives that hold functions, of those with a rule that are differentiated."""


def holds_rule(params: Params) -> bool:
    """Whether a function among these params has a derivative rule of a user's in it.

    JAX may run it when whoever called the function is over.
    """
    return any(map(_has_rule, _jax.jaxprs_in(params)))


def holds_tracer(params: Params) -> bool:
    """Whether an implicit array is a constant of a function among these params.

    A rule that closes over one brings it there, when JAX differentiates or transposes the function.
    """
    return any(
        type(const) is ImplicitTracer for jaxpr in _closed_in(params) for const in jaxpr.consts
    ) or any(map(_has_tracer, _jax.jaxprs_in(params)))


def _closed_in(params: Params) -> Iterator[ClosedJaxpr]:
    for param in params.values():
        for each in param if isinstance(param, tuple) else (param,):
            if isinstance(each, ClosedJaxpr):
                yield each


def _has_tracer_uncached(jaxpr: Jaxpr) -> bool:
    return any(holds_tracer(eqn.params) for eqn in jaxpr.eqns)


def _has_rule_uncached(jaxpr: Jaxpr) -> bool:
    return any(_is_ruled(eqn.primitive, eqn.params) for eqn in jaxpr.eqns)


def _is_ruled(primitive: Primitive, params: Params) -> bool:
    """Whether this applies such a rule; those of relu and the like close over nothing."""
    return (
        primitive.name == "custom_vjp_call"
        or (primitive.name == "custom_jvp_call" and not is_jax_internal(params["call_jaxpr"]))
        or holds_rule(params)
    )


_has_tracer = _jax.weakref_lru_cache(_has_tracer_uncached)
_has_rule = _jax.weakref_lru_cache(_has_rule_uncached)
