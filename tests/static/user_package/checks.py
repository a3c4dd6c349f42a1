"""Tests of the package's own: `pytest user_package/checks.py`."""

# pyright: strict, reportUnknownMemberType=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import typedqax as tq
from typedqax import ops
from typedqax.testing import check_handlers
from user_package import CIRCULANT, LOW_RANK, STRUCTURED, Circulant, LowRank, fit
from user_package.low_rank import adapt
from user_package.model import Layer


@pytest.fixture
def circulant() -> Circulant:
    return Circulant(jnp.arange(1.0, 5.0))


@pytest.fixture
def adapted(circulant: Circulant) -> LowRank[Circulant]:
    return adapt(circulant, jax.random.key(0), rank=2, alpha=0.5)


def test_handlers_agree_with_the_dense_arrays(circulant: Circulant) -> None:
    report = check_handlers(Circulant, [circulant], handlers=CIRCULANT)
    assert report.calls > 0
    assert not report.unreached


def test_an_update_of_low_rank_starts_at_its_base(adapted: LowRank[Circulant]) -> None:
    np.testing.assert_allclose(tq.materialize(adapted), tq.materialize(adapted.base), rtol=1e-6)
    assert adapted.rank == 2


def test_a_product_opens_neither_matrix(adapted: LowRank[Circulant]) -> None:
    def layer(x: Array, weight: Array) -> Array:
        return Layer(weight, jnp.zeros(4))(x)

    x = jnp.ones((3, 4))
    with tq.materialization("error"):
        y = tq.use_implicit_args(layer, handlers=STRUCTURED)(x, adapted)
    np.testing.assert_allclose(y, x @ tq.materialize(adapted), rtol=1e-5)


def test_the_handler_of_each_class_is_found(
    circulant: Circulant, adapted: LowRank[Circulant]
) -> None:
    x = jnp.ones((3, 4))
    for weight, table in ((circulant, CIRCULANT), (adapted, LOW_RANK)):
        found = tq.which(ops.dot_general, x, weight, handlers=table)
        assert found.winner is not None
        assert found.winner.handler == "matmul"


def test_training_lowers_the_loss() -> None:
    report = fit(steps=10)
    assert report.losses[-1] < report.losses[0]
