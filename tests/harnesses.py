"""JAX's own examples of each primitive, with their array arguments made implicit.

Each example (JAX calls it a harness) runs eagerly and jitted, in two modes: "wrapped", with a class
that has no handlers around every array argument at once; and "passed on", with one array argument
at a time implicit, a handler that passes every primitive on, and nothing allowed to become dense
(but for `DENSE_BY_DESIGN`).
No result may differ from the dense run's in a bit.

An example that JAX itself refuses to run has nothing to compare with: these are counted and listed,
and so are those without an array argument. Whatever else is raised is a difference.

    python -m tests.harnesses --all --json out.json     # resumes where out.json ends
    python -m tests.harnesses --all --shard 1/4         # the first of four equal parts
    python -m tests.harnesses --sample 200 --seed 1
    JAX_ENABLE_X64=1 python -m tests.harnesses --all    # with those of 64 bits, which JAX adds then
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import jax
import numpy as np

import typedqax as tq
from typedqax import ops

TOGETHER: Final = 24
"""How many harnesses are compiled at a time, before what they gave is saved."""


class Wrapped(tq.ImplicitArray, materialization="allow"):
    """An array that is what it holds."""

    x: tq.ArrayValue

    def materialize(self) -> jax.Array:
        return self.x


def pass_on(op: ops.AnyOp, *operands: Any, **params: Any) -> Any:
    """The primitive on what is held, its results held in turn."""
    held = [each.x if isinstance(each, Wrapped) else each for each in operands]
    results = op.primitive.bind(*held, **params)
    if isinstance(results, (list, tuple)):
        return [_hold(each) for each in results]
    return _hold(results)


def _hold(result: Any) -> Any:
    return Wrapped(result) if isinstance(result, jax.Array) else result


PASS_ON: Final = tq.HandlerTable("pass on", ops.any_primitive.to(pass_on))

DENSE_BY_DESIGN: Final = frozenset({"custom_linear_solve"})
"""Primitives that hold functions, which no handler here is for, and whose vectors are dense."""


def all_harnesses() -> list[Any]:
    """JAX's harnesses (importing them needs absl-py, and builds them all).

    The first of each primitive come first, then the second of each, and so on: three fifths of them
    all are scatters, and a part of the run is to have met everything.
    """
    from jax._src.internal_test_util import test_harnesses

    met: dict[str, int] = defaultdict(int)
    turns = {}
    for harness in test_harnesses.all_harnesses:
        turns[harness.fullname] = met[harness.group_name]
        met[harness.group_name] += 1
    if len(turns) != len(test_harnesses.all_harnesses):
        raise LookupError("Two of JAX's harnesses have the same name.")
    return sorted(test_harnesses.all_harnesses, key=lambda each: turns[each.fullname])


def sample(harnesses: Sequence[Any], count: int, seed: int) -> list[Any]:
    """`count` of them, or all where they are fewer."""
    return random.Random(seed).sample(list(harnesses), min(count, len(harnesses)))


@dataclass
class Outcome:
    """What became of one harness.

    Attributes:
        compared: how many runs were compared with a dense run.
        refused: for "eager" and "jit", what JAX said where it refused the dense run.
        differing: what differs, a sentence each.
    """

    compared: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)


def outcomes(harnesses: Sequence[Any], ways: Sequence[str] = ("eager", "jit")) -> list[Outcome]:
    """What each mode gives for each harness, compared with the dense run."""
    found = [Outcome() for _ in harnesses]
    runs = [_Runs(harness) for harness in harnesses]
    for way in ways:
        results = _compiled(runs) if way == "jit" else [_tried(run, run.args) for run in runs]
        for each, run, result in zip(found, runs, results, strict=True):
            _compare(each, run, way, result)
    return found


def _compare(found: Outcome, run: _Runs, way: str, result: _Results | Exception) -> None:
    if not isinstance(result, Exception):
        want, got = result
        problems = run.failed | {name: _difference(each, want) for name, each in got.items()}
    elif way == "eager" or not _runs(jax.jit(run.function), run.args):
        found.refused[way] = _told(result)
        return
    else:
        problems = dict.fromkeys(run.names, f"compiled together: {_told(result)}")
    found.compared += len(run.names)
    for name in run.names:
        if problems[name]:
            found.differing.append(f"{run.fullname}, {way}, {name}: {problems[name]}")


_Results: TypeAlias = tuple[Any, dict[str, Any]]
"""What the dense run gives, and those of the other runs that did not fail, by name."""


class _Runs:
    """A harness's runs, dense and with implicit arguments."""

    def __init__(self, harness: Any) -> None:
        self.fullname = harness.fullname
        self.function: Callable[..., Any] = harness.dyn_fun
        self.args = list(harness.dyn_args_maker(np.random.RandomState(0)))
        leaves = jax.tree.leaves(self.args)
        self.places = [place for place, leaf in enumerate(leaves) if hasattr(leaf, "dtype")]
        self.names = [f"argument {place} passed on" for place in self.places]
        if self.places:
            self.names.insert(0, "wrapped")
        self.failed: dict[str, str] = {}

    def all(self, args: Sequence[Any]) -> _Results:
        """Every run, the dense one first: what it raises is raised, what others raise is kept."""
        self.failed = {}
        want = self.function(*args)
        got = {}
        for name in self.names:
            try:
                got[name] = self.one(name, args)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is a difference
                self.failed[name] = _told(error)
        return want, got

    def one(self, name: str, args: Sequence[Any]) -> Any:
        """What the run of this name gives, made dense."""
        if name == "wrapped":
            run = tq.use_implicit_args(self.function)
            return tq.materialize(run(*self.wrapped(args, self.places)))
        place = self.places[self.names.index(name) - 1]
        run = tq.use_implicit_args(self.function, handlers=PASS_ON)
        with tq.materialization("error", allow=DENSE_BY_DESIGN):
            got = run(*self.wrapped(args, [place]))
        return tq.materialize(got)

    def wrapped(self, args: Sequence[Any], places: Sequence[int]) -> list[Any]:
        """The arguments, those at these places implicit."""
        leaves, tree = jax.tree.flatten(list(args))
        for place in places:
            leaves[place] = Wrapped(jax.numpy.asarray(leaves[place]))
        whole: list[Any] = jax.tree.unflatten(tree, leaves)
        return whole


def _tried(run: _Runs, args: Sequence[Any]) -> _Results | Exception:
    try:
        return run.all(args)
    except Exception as error:  # noqa: BLE001  # what JAX does not run either is listed as such
        return error


def _compiled(runs: Sequence[_Runs]) -> list[_Results | Exception]:
    """The results of all runs, compiled as one program, or as the fewest that compile.

    Compiling is nearly all that the command does, and takes half as long for many at once.
    """
    try:
        compiled = jax.jit(lambda args: [run.all(own) for run, own in zip(runs, args, strict=True)])
        results: list[_Results | Exception] = compiled([run.args for run in runs])
    except Exception as error:  # noqa: BLE001  # as above
        if len(runs) == 1:
            return [error]
        half = len(runs) // 2
        return [*_compiled(runs[:half]), *_compiled(runs[half:])]
    return results


def _runs(function: Callable[..., Any], args: Sequence[Any]) -> bool:
    try:
        function(*args)
    except Exception:  # noqa: BLE001  # that is the question
        return False
    return True


def _told(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} at {last.filename}:{last.lineno}"


def _difference(got: Any, want: Any) -> str:
    got_leaves, got_tree = jax.tree.flatten(got)
    want_leaves, want_tree = jax.tree.flatten(want)
    if got_tree != want_tree:
        return f"gives {got_tree}, not {want_tree}"
    for one, other in zip(got_leaves, want_leaves, strict=True):
        own, due = (np.shape(one), one.dtype), (np.shape(other), other.dtype)
        if own != due:
            return f"gives {own}, not {due}"
        if jax.numpy.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)  # noqa: PLW2901
        if np.asarray(one).tobytes() != np.asarray(other).tobytes():
            return "gives other numbers"
    return ""


# --- the command ---------------------------------------------------------------------------------


class Report:
    """The outcomes so far, in a file if one is named; those that differed are run again."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.setting = {"jax": jax.__version__, "x64": bool(jax.config.read("jax_enable_x64"))}
        self.outcomes: dict[str, Outcome] = {}
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            if kept["setting"] != self.setting:
                raise SystemExit(f"{path} is of another run: {kept['setting']}, not {self.setting}")
            self.outcomes = {
                name: Outcome(**fields)
                for name, fields in kept["outcomes"].items()
                if not fields["differing"]
            }

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is not None:
            outcomes = {name: asdict(each) for name, each in self.outcomes.items()}
            text = json.dumps({"setting": self.setting, "outcomes": outcomes}, indent=1)
            new = self.path.with_name(f"{self.path.name}.new")
            new.write_text(text)
            new.replace(self.path)

    def lines(self, names: Sequence[str]) -> Iterator[str]:
        """What is known of these harnesses: the counts last."""
        outcomes = {name: self.outcomes[name] for name in names}
        without = [name for name, each in outcomes.items() if not each.compared]
        without = [name for name in without if not outcomes[name].refused]
        for name, each in outcomes.items():
            for way, error in each.refused.items():
                yield f"refused by JAX: {name}, {way}: {error}"
        yield from (f"no array argument: {name}" for name in without)
        for each in outcomes.values():
            yield from (f"differs: {problem}" for problem in each.differing)
        compared = [each for each in outcomes.values() if each.compared]
        yield (
            f"{len(outcomes)} harnesses on JAX {self.setting['jax']}, x64 {self.setting['x64']}: "
            f"{len(compared)} compared in {sum(each.compared for each in compared)} runs, "
            f"{sum(bool(each.refused) for each in outcomes.values())} refused by the dense run "
            f"({sum(set(each.refused) == {'eager', 'jit'} for each in outcomes.values())} eagerly "
            f"and jitted), {len(without)} without an array argument, "
            f"{sum(bool(each.differing) for each in outcomes.values())} differing"
        )


def main() -> int:
    """Run them from the command line; the counts are printed last."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.harnesses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    extent = parser.add_mutually_exclusive_group(required=True)
    extent.add_argument("--all", action="store_true", help="every harness")
    extent.add_argument("--sample", type=int, metavar="COUNT", help="as many, picked at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--group", help="only harnesses of this primitive")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N equal parts")
    parser.add_argument("--json", type=Path, metavar="OUT", help="keep the outcomes, and resume")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # what JAX's own examples warn of
    chosen = [h for h in all_harnesses() if options.group in (None, h.group_name)]
    if options.sample is not None:
        chosen = sample(chosen, options.sample, options.seed)
    part, parts = map(int, options.shard.split("/"))
    chosen = chosen[part - 1 :: parts]
    report = Report(options.json)
    todo = [harness for harness in chosen if harness.fullname not in report.outcomes]
    for start in range(0, len(todo), TOGETHER):
        part_of_it = todo[start : start + TOGETHER]
        for harness, found in zip(part_of_it, outcomes(part_of_it), strict=True):
            report.outcomes[harness.fullname] = found
            for problem in found.differing:
                print(f"differs: {problem}", flush=True)
        report.save()
        print(f"... {start + len(part_of_it)} of {len(todo)}", flush=True)
        jax.clear_caches()  # or what was compiled fills the memory
    report.save()
    for line in report.lines([harness.fullname for harness in chosen]):
        print(line)
    return int(any(report.outcomes[harness.fullname].differing for harness in chosen))


if __name__ == "__main__":
    sys.exit(main())
