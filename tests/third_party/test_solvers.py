"""jaxopt, lineax and optimistix: solvers, and what they do when they are differentiated."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx
from jax import Array

import typedqax as tq
from tests.third_party.kit import agrees, implicit, lora, numbers, same
from typedqax.arrays import LoraMatrix

with warnings.catch_warnings():  # it says that it is maintained no more
    warnings.filterwarnings("ignore", "JAXopt is no longer maintained", DeprecationWarning)
    import jaxopt

B = numbers(11, 4)
WEAK = lora(1, 4, 4)


def strong() -> LoraMatrix:
    """A matrix that is far from singular."""
    return LoraMatrix(
        3 * jnp.eye(4) + 0.1 * numbers(1, 4, 4), numbers(2, 4, 2), numbers(3, 4, 2), alpha=0.1
    )


def ridge(y: Array, w: Array) -> Array:
    return jnp.sum((w @ y - 1) ** 2) + 0.1 * jnp.sum(y**2)


# --- jaxopt --------------------------------------------------------------------------------------


def test_jaxopt_differentiates_an_optimum_implicitly() -> None:
    def optimum(w: Array) -> Array:
        solver = jaxopt.GradientDescent(ridge, maxiter=200, tol=1e-6, implicit_diff=True)
        return jnp.sum(solver.run(jnp.zeros(4), w).params ** 2)

    agrees(optimum, strong(), tolerance=1e-3)


def test_jaxopt_differentiates_a_root_of_ones_own_by_a_rule() -> None:
    @jaxopt.implicit_diff.custom_root(jax.grad(ridge))
    def solve(init: Array, w: Array) -> Array:
        del init
        return jnp.linalg.solve(w.T @ w + 0.1 * jnp.eye(4), w.T @ jnp.ones(4))

    agrees(
        lambda w: jnp.sum(solve(jnp.zeros(4), w) ** 2),
        strong(),
        dense={"LoraMatrix": {"dot_general"}},  # w.T @ w: two LoRA matrices
        tolerance=1e-3,
    )


def test_jaxopt_optimizes_the_fields_of_a_matrix() -> None:
    def run(value: object) -> LoraMatrix:
        found: LoraMatrix = jaxopt.LBFGS(value, maxiter=3, jit=True).run(strong()).params
        return found

    def value(w: Array) -> Array:
        return jnp.sum((B @ w - 1) ** 2)

    with tq.materialization("error"):
        got = run(implicit(value))
    assert isinstance(got, LoraMatrix)
    same(got, run(lambda w: value(tq.materialize(w))), tolerance=1e-3)


# --- lineax --------------------------------------------------------------------------------------


def test_lineax_solves_with_a_function_that_closes_over_a_matrix() -> None:
    def solution(w: Array, b: Array) -> Array:
        operator = lx.FunctionLinearOperator(
            lambda x: w @ x, jax.ShapeDtypeStruct(b.shape, b.dtype)
        )
        return jnp.sum(lx.linear_solve(operator, b, lx.GMRES(1e-6, 1e-6)).value ** 2)

    # lineax has a primitive of its own, which no one but lineax can look into.
    agrees(solution, strong(), B, dense={"LoraMatrix": {"linear_solve"}}, tolerance=1e-3)


def test_lineax_factorizes_the_dense_matrix() -> None:
    def solution(w: Array, b: Array) -> Array:
        return jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(w), b, lx.LU()).value ** 2)

    agrees(solution, strong(), B, dense={"LoraMatrix": {"linear_solve", "lu"}}, tolerance=1e-4)


# --- optimistix ----------------------------------------------------------------------------------


def test_optimistix_differentiates_a_fixed_point_implicitly() -> None:
    def fixed(w: Array) -> Array:
        solver = optx.FixedPointIteration(1e-6, 1e-6)
        start = jnp.zeros(4)
        return jnp.sum(
            optx.fixed_point(lambda y, w: 0.3 * jnp.tanh(w @ y) + 1, solver, start, w).value ** 2
        )

    agrees(fixed, WEAK, dense={"LoraMatrix": {"linear_solve"}}, tolerance=1e-4)  # its derivative


def test_optimistix_takes_newton_steps_through_a_matrix() -> None:
    def root(w: Array) -> Array:
        solver = optx.Newton(1e-6, 1e-6)
        start = jnp.zeros(4)
        return jnp.sum(
            optx.root_find(lambda y, w: y - 0.3 * jnp.tanh(w @ y) - 1, solver, start, w).value ** 2
        )

    agrees(root, WEAK, dense={"LoraMatrix": {"linear_solve"}}, tolerance=1e-4)
