"""A sample of what `python -m tests.harnesses` runs: JAX's own examples, one argument implicit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import typedqax as tq
from tests.harnesses import PASS_ON, Wrapped, all_harnesses, differences, sample

SAMPLE = 40


@pytest.fixture(scope="module")
def harnesses() -> list[Any]:
    return all_harnesses()


@pytest.mark.lenient_promotion
@pytest.mark.filterwarnings("ignore")  # what JAX's own examples warn of
def test_the_examples_of_jax_give_what_they_give_for_dense_arrays(harnesses: list[Any]) -> None:
    found: list[str] = []
    with jax.check_tracer_leaks(False):
        for count, harness in enumerate(sample(harnesses, SAMPLE, seed=0)):
            found += differences(harness, jitted=count % 4 == 0)
    assert not found


def test_a_primitive_that_is_passed_on_is_run_by_the_handler_alone() -> None:
    with tq.materialization("error"):
        got = tq.use_implicit_args(jnp.sort, handlers=PASS_ON)(Wrapped(jnp.array([2.0, 1.0])))
    assert isinstance(got, Wrapped)
    assert got.x.tolist() == [1.0, 2.0]
