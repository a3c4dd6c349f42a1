"""Many random questions to the resolver against the brute force, in one command.

`python -m tests.long_resolver --pairs 200000 --seed 1` prints what was asked, what was answered
"maybe", and every disagreement; it exits with an error if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests import brute_force
from tests.resolver_oracle import KINDS, Report, run
from typedqax import _shapes


def main() -> int:
    """Run the comparison; the number of disagreements decides the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    total, start = Report(), time.monotonic()
    batch = 1000
    for number in range(-(-options.pairs // batch)):
        done = run(
            options.seed * 1_000_003 + number, min(batch, options.pairs - total.pairs), KINDS
        )
        total.pairs += done.pairs
        total.answers.update(done.answers)
        total.wrong.extend(done.wrong)
        for cache in (brute_force.points, _shapes._regions, _shapes.canonical):
            cache.cache_clear()
        minutes = (time.monotonic() - start) / 60
        for text in done.wrong:
            print("WRONG", text, flush=True)
        if number % 10 == 9 or minutes > options.minutes:
            print(f"{total.pairs} pairs, {minutes:.1f} min, {len(total.wrong)} wrong", flush=True)
        if minutes > options.minutes:
            break
    print(f"{total.pairs} pairs, seed {options.seed}: {len(total.wrong)} disagreements")
    for answer, count in sorted(total.answers.items()):
        print(f"  {answer}: {count}")
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
