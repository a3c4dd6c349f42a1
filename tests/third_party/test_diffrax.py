"""diffrax: differential equations whose vector field, or whose state, is implicit."""

from __future__ import annotations

import diffrax
import jax.numpy as jnp
import pytest
from jax import Array

from tests.third_party.kit import agrees, int8, lora, numbers, zeros

Y0 = numbers(11, 3, 4)


def solved(w: Array, y0: Array, adjoint: diffrax.AbstractAdjoint) -> Array:
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, w: jnp.tanh(y @ w)),
        diffrax.Heun(),
        t0=0.0,
        t1=1.0,
        dt0=0.25,
        y0=y0,
        args=w,
        adjoint=adjoint,
        max_steps=8,
    )
    return jnp.sum(solution.ys**2)


@pytest.mark.parametrize(
    ("adjoint", "tolerance"),
    [
        pytest.param(diffrax.RecursiveCheckpointAdjoint(checkpoints=2), 1e-5, id="checkpointed"),
        pytest.param(diffrax.BacksolveAdjoint(), 1e-5, id="backsolve"),
    ],
)
def test_the_adjoint_of_a_lora_vector_field_never_adds_it_up(
    adjoint: diffrax.AbstractAdjoint, tolerance: float
) -> None:
    agrees(lambda w, y0: solved(w, y0, adjoint), lora(1, 4, 4), Y0, tolerance=tolerance)


def test_a_vector_field_of_bytes_stays_one() -> None:
    agrees(lambda w, y0: solved(w, y0, diffrax.DirectAdjoint()), int8(1, 4, 4), Y0, grad=False)


def test_a_state_may_start_implicit() -> None:
    def decayed(y0: Array) -> Array:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: 1 - y),
            diffrax.Euler(),
            t0=0.0,
            t1=1.0,
            dt0=0.25,
            y0=y0,
            max_steps=8,
        )
        return jnp.sum(solution.ys**2)

    # The next state is another type.
    agrees(decayed, zeros(3, 4), grad=False, dense={"Zeros": {"while"}})
