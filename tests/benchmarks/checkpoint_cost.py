"""What LoRA costs once compiled where layers are checkpointed: flops, instructions, memory.

    python -m tests.benchmarks.checkpoint_cost > checkpoint_cost.json

The gradient in the adapters of a transformer whose layers are under `jax.checkpoint`: with
`LoraMatrix` on the unmodified model it must cost what LoRA written into the model costs. quax is
shown beside, where it is installed. Nothing is timed.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import jax

import typedqax as tq
from tests.benchmarks.transformer import Program, operands_for, programs, same

LAYERS = 4


def cost(make: Program) -> dict[str, float]:
    """Flops, instructions and bytes of temporary memory of the compiled program."""
    compiled = jax.jit(make()).lower(*operands_for(LAYERS)).compile()
    analysis, memory = compiled.cost_analysis(), compiled.memory_analysis()
    if memory is None:
        raise RuntimeError("this backend does not say what memory a program takes")
    instructions = re.findall(r"^\s*(?:ROOT )?%?[\w.-]+ = ", compiled.as_text() or "", re.MULTILINE)
    return {
        "flops": (analysis or {})["flops"],
        "instructions": len(instructions),
        "temporary_bytes": memory.temp_size_in_bytes,
    }


def main() -> None:
    """Print the costs as JSON; the exit status says whether they are equal."""
    ways: dict[str, Any] = {"checkpoint": jax.checkpoint, "jit": jax.jit, "plain": same}
    with tq.materialization("error"):
        results = {
            way: {name: cost(make) for name, make in programs(transformed).items()}
            for way, transformed in ways.items()
        }
    json.dump(results, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.exit(any(both["by_hand"] != both["typedqax"] for both in results.values()))


if __name__ == "__main__":
    main()
