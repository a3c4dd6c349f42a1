"""A sample of what `python -m tests.harnesses` runs: JAX's own examples with implicit arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedqax as tq
from tests.harnesses import PASS_ON, Outcome, Report, Wrapped, all_harnesses, outcomes, sample

SAMPLE = 40


@pytest.fixture(scope="module")
def harnesses() -> list[Any]:
    return all_harnesses()


@pytest.mark.lenient_promotion
@pytest.mark.filterwarnings("ignore")  # what JAX's own examples warn of
def test_the_examples_of_jax_give_what_they_give_for_dense_arrays(harnesses: list[Any]) -> None:
    with jax.check_tracer_leaks(False):
        chosen = sample(harnesses, SAMPLE, seed=0)
        found = outcomes(chosen[::4]) + outcomes(chosen, ("eager",))
    assert not [problem for each in found for problem in each.differing]
    assert sum(bool(each.compared) for each in found) >= len(found) - 2


def test_a_primitive_that_is_passed_on_is_run_by_the_handler_alone() -> None:
    with tq.materialization("error"):
        got = tq.use_implicit_args(jnp.sort, handlers=PASS_ON)(Wrapped(jnp.array([2.0, 1.0])))
    assert isinstance(got, Wrapped)
    assert got.x.tolist() == [1.0, 2.0]


class _Harness:
    """As JAX's, of one array argument."""

    fullname = "a harness"

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.dyn_fun = function

    def dyn_args_maker(self, _: np.random.RandomState) -> list[Any]:
        return [np.arange(3.0, dtype=np.float32)]


def _runs_dense_only(x: Any) -> Any:
    assert "Implicit" not in type(x).__name__, "implicit"
    return x


def _other_numbers(x: Any) -> Any:
    return x + 1.0 if "Implicit" in type(x).__name__ else x


def _another_dtype(x: Any) -> Any:
    return x.astype(jnp.int32) if "Implicit" in type(x).__name__ else x * 1.0


@pytest.mark.lenient_promotion
@pytest.mark.parametrize(
    ("function", "told"),
    [
        pytest.param(_runs_dense_only, "AssertionError: implicit", id="what is raised"),
        pytest.param(_other_numbers, "gives other numbers", id="numbers"),
        pytest.param(_another_dtype, "gives ((3,), dtype('int32')), not ((3,), ", id="dtypes"),
    ],
)
def test_a_difference_is_told_of_every_run(function: Callable[[Any], Any], told: str) -> None:
    with jax.check_tracer_leaks(False):
        (found,) = outcomes([_Harness(function)])
    assert (found.compared, found.refused) == (4, {})
    for problem, run in zip(
        found.differing,
        [
            "eager, wrapped",
            "eager, argument 0 passed on",
            "jit, wrapped",
            "jit, argument 0 passed on",
        ],
        strict=True,
    ):
        assert problem.startswith(f"a harness, {run}: {told}")


def test_what_jax_refuses_is_listed_and_not_compared() -> None:
    def refuse(x: Any) -> Any:
        raise NotImplementedError("no such dtype")

    (found,) = outcomes([_Harness(refuse)])
    assert (found.compared, found.differing) == (0, [])
    assert list(found.refused) == ["eager", "jit"]
    assert found.refused["eager"].startswith("NotImplementedError: no such dtype")


def test_one_that_does_not_compile_leaves_the_others_to_be_compared() -> None:
    def refuse(x: Any) -> Any:
        raise NotImplementedError("no such dtype")

    functions = [jnp.sin, refuse, jnp.cos, jnp.tan]
    with jax.check_tracer_leaks(False):
        found = outcomes([_Harness(function) for function in functions])
    assert [each.compared for each in found] == [4, 0, 4, 4]
    assert [set(each.refused) for each in found] == [set(), {"eager", "jit"}, set(), set()]
    assert not [problem for each in found for problem in each.differing]


def test_a_report_resumes_and_runs_again_what_differed(tmp_path: Path) -> None:
    first = Report(tmp_path / "out.json")
    first.outcomes = {
        "good": Outcome(4),
        "bad": Outcome(4, {}, ["bad, eager, wrapped: gives other numbers"]),
        "refused": Outcome(0, {"eager": "TypeError: no", "jit": "TypeError: no"}),
        "empty": Outcome(),
    }
    first.save()
    assert set(Report(tmp_path / "out.json").outcomes) == {"good", "refused", "empty"}
    *lines, counts = first.lines(["good", "bad", "refused", "empty"])
    assert lines == [
        "refused by JAX: refused, eager: TypeError: no",
        "refused by JAX: refused, jit: TypeError: no",
        "no array argument: empty",
        "differs: bad, eager, wrapped: gives other numbers",
    ]
    assert counts.endswith(
        "2 compared in 8 runs, 1 refused by the dense run (1 eagerly and jitted), "
        "1 without an array argument, 1 differing"
    )
