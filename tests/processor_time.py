"""How long a processor works on a program that a test starts."""

from __future__ import annotations

import resource
from collections.abc import Callable

RUNS = 3


def takes_less_than(seconds: float, run: Callable[[], object]) -> bool:
    """Whether one of `RUNS` runs of a program does: what else the machine does only adds to it."""
    return any(_seconds(run) < seconds for _ in range(RUNS))


def _seconds(run: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
