"""Backward rules in inner functions: JAX runs them when whoever called the function is over."""

from __future__ import annotations

from typedqax import _jax
from typedqax._jax import Jaxpr, Params, Primitive

_HOLDING = frozenset(
    {"jit", "cond", "scan", "remat2", "checkpoint", "custom_vmap_call", "custom_linear_solve"}
)
"""The primitives that hold functions, of those with a rule that are differentiated backwards."""


def holds_backward_rule(primitive: Primitive, params: Params) -> bool:
    """Whether a function that `primitive` calls has a vjp rule of its own in it."""
    return primitive.name in _HOLDING and any(map(_has_backward_rule, _jax.jaxprs_in(params)))


def _has_backward_rule_uncached(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive.name == "custom_vjp_call"
        or any(map(_has_backward_rule, _jax.jaxprs_in(eqn.params)))
        for eqn in jaxpr.eqns
    )


_has_backward_rule = _jax.weakref_lru_cache(_has_backward_rule_uncached)
