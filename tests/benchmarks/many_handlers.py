"""What N handlers of one primitive cost, beside plum and quax where these are installed.

    python -m tests.benchmarks.many_handlers [N] > many_handlers.json

Each handler is for a class of its own. Measured in CPU time: declaring all of them (for typedqax
with the check that no call is ambiguous), the first call on operands of a class, and a call that
was seen before. plum checks nothing when methods are declared; its first call sorts them.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

import typedqax as tq
from typedqax import ops
from typedqax._dispatch import Tables, resolve
from typedqax._signature import Operand

SEEN = 20_000


def timed(run: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    start = time.process_time()
    run()
    return time.process_time() - start


def typedqax(count: int) -> dict[str, float]:
    """Declaring, a first call and a seen one."""
    classes = [
        type(f"C{i}", (tq.ImplicitArray,), {"materialize": lambda self: jnp.zeros(self.shape)})
        for i in range(count)
    ]
    functions = [handler(cls) for cls in classes]
    rules: list[Any] = []
    tables: list[tq.HandlerTable] = []
    declare = timed(lambda: rules.extend([ops.neg.to(function) for function in functions]))
    seal = timed(lambda: tables.append(tq.HandlerTable("many", *rules)))
    looked_in = Tables.of(tables[0], isolated=True)
    first = [
        timed(partial(resolve, looked_in, "neg", (Operand(cls, "float32", (3,)),)))
        for cls in classes[:200]
    ]
    operands = (Operand(classes[0], "float32", (3,)),)
    seen = timed(lambda: [resolve(looked_in, "neg", operands) for _ in range(SEEN)]) / SEEN
    return figures(declare + seal, first[1:], seen)


def handler(cls: Any) -> Callable[[Any], Any]:
    """A handler for `cls`, which looks at the shape too."""

    def negate(x: Any, /) -> Any:
        return x

    negate.__annotations__ = {"x": Float[cls, "n"], "return": Float[cls, "n"]}
    return negate


def plum(count: int) -> dict[str, float]:
    """The same for methods of plum, by class alone (it cannot order jaxtyping's)."""
    from plum import Dispatcher  # where it is installed

    classes = [type(f"P{i}", (), {}) for i in range(count)]
    functions = []
    for cls in classes:
        function = handler_by_class(cls)
        functions.append(function)
    dispatcher, named = Dispatcher(), []
    declare = timed(lambda: named.extend([dispatcher(function) for function in functions]))
    objects = [cls() for cls in classes]
    resolver = named[-1]
    pending = timed(lambda: resolver(objects[0]))  # registers what was declared
    first = [timed(partial(resolver, value)) for value in objects[1:6]]
    seen = timed(lambda: [resolver(objects[0]) for _ in range(SEEN)]) / SEEN
    return figures(declare + pending, first, seen)


def handler_by_class(cls: Any) -> Callable[[Any], Any]:
    """A method for `cls`."""

    def negate(x: Any) -> Any:
        return x

    negate.__annotations__ = {"x": cls}
    return negate


def quax(count: int) -> dict[str, float]:
    """The same for rules of quax; a call is one that its transform traces."""
    import quax as peer  # where it is installed

    def aval(self: Any) -> Any:
        return jax.core.ShapedArray((3,), jnp.float32)

    body = {"aval": aval, "materialise": lambda self: jnp.zeros(3), "__annotations__": {}}
    classes = [type(f"Q{i}", (peer.ArrayValue,), dict(body)) for i in range(count)]
    functions = [handler_by_class(cls) for cls in classes]
    register = peer.register(jax.lax.neg_p)
    declare = timed(lambda: [register(function) for function in functions])
    negate = peer.quaxify(lambda x: -x)
    pending = timed(lambda: negate(classes[0]()))
    first = [timed(partial(negate, cls())) for cls in classes[1:6]]
    calls = 200
    seen = timed(lambda: [negate(classes[0]()) for _ in range(calls)]) / calls
    return figures(declare + pending, first, seen)


def figures(declare: float, first: Sequence[float], seen: float) -> dict[str, float]:
    """In the units that the numbers are read in."""
    return {
        "declare_s": round(declare, 4),
        "first_us": round(1e6 * sorted(first)[len(first) // 2], 2),
        "seen_us": round(1e6 * seen, 3),
    }


def main() -> None:
    """Print the figures of each system, and how many times those of typedqax they are."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    systems = {"typedqax": typedqax, "plum": plum, "quax": quax}
    found = {
        name: measure(count)
        for name, measure in systems.items()
        if importlib.util.find_spec(name) is not None
    }
    ours = found["typedqax"]
    ratios = {
        name: {key: round(value / ours[key], 2) for key, value in each.items()}
        for name, each in found.items()
    }
    print(json.dumps({"handlers": count, "figures": found, "ratios": ratios}, indent=2))


if __name__ == "__main__":
    main()
