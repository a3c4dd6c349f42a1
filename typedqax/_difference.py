"""The difference between two results, beyond what the rounding of their dtypes excuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from typedqax import _jax


def array_difference(got: Any, want: Any, tolerance: float) -> str:
    """What is different, as far as it is more than `tolerance` of the largest; empty if nothing."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        own = _jax.short_aval(got.shape, got.dtype)
        return f"gives {own}, and the dense path {_jax.short_aval(want.shape, want.dtype)}"
    if got.dtype == jax.dtypes.float0 or not got.size:
        return ""
    if not jnp.issubdtype(got.dtype, jnp.inexact):
        count = int((np.asarray(got) != np.asarray(want)).sum())
        return f"differs in {count} of {got.size} places" if count else ""
    wide = np.complex128 if jnp.issubdtype(got.dtype, jnp.complexfloating) else np.float64
    one, other = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    finite = np.isfinite(other)
    scale = max(1.0, float(np.abs(other[finite]).max(initial=0.0)))
    allowed = scale * tolerance
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(one - other))
    wrong = ~(distance <= allowed)
    if not wrong.any():
        return ""
    largest = float(np.nanmax(np.where(wrong, distance, 0.0), initial=0.0))
    told = f"by up to {largest:.3g}" if np.isfinite(largest) and largest else "by not a number"
    return (
        f"differs {told} in {int(wrong.sum())} of {wrong.size} places "
        f"({allowed:.2g} would be excused)"
    )


def where_finite(derivatives: Any, wanted: Any) -> tuple[Any, Any]:
    """Both, zero where the wanted ones are infinite or not a number."""

    def finite(derivative: Any, want: Any) -> Any:
        if derivative.shape != want.shape or not jnp.issubdtype(want.dtype, jnp.inexact):
            return derivative
        return jnp.where(jnp.isfinite(want), derivative, jnp.zeros_like(derivative))

    return jax.tree.map(finite, derivatives, wanted), jax.tree.map(finite, wanted, wanted)


def rounding(arrays: Iterable[Any]) -> float:
    """How far results may be apart that were computed in another order, by the coarsest dtype."""
    dtypes = {array.dtype for array in arrays if jnp.issubdtype(array.dtype, jnp.inexact)}
    coarsest = 0.0
    for dtype in dtypes:
        coarsest = max(coarsest, float(jnp.finfo(dtype).eps))
    return float(3.0 * coarsest**0.7)
