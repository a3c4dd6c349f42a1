"""What the trace does with primitives that hold functions: one module per family.

What it does with the few others that have a rule stands in `typedqax._leafwise`,
`typedqax._stacks` and `typedqax._uniform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from typedqax._call import Call, PrimitiveRule, apply_to_values
from typedqax._dispatch import Tables
from typedqax._higher_order._staged import HOLDING, held
from typedqax._higher_order.call import call
from typedqax._higher_order.cond import cond
from typedqax._higher_order.custom_jvp import custom_jvp
from typedqax._higher_order.custom_vjp import custom_vjp
from typedqax._higher_order.custom_vmap import custom_vmap
from typedqax._higher_order.jit import jit
from typedqax._higher_order.linear_call import linear_call
from typedqax._higher_order.linear_solve import linear_solve
from typedqax._higher_order.other import other
from typedqax._higher_order.remat import remat
from typedqax._higher_order.remat_opt import remat_opt
from typedqax._higher_order.scan import scan
from typedqax._higher_order.shard_map import shard_map
from typedqax._higher_order.while_loop import while_loop
from typedqax._leafwise import LEAFWISE
from typedqax._run import Rules
from typedqax._stacks import ON_BATCH_AXES
from typedqax._uniform import IN_ANOTHER_SHAPE


def _in_turn(*tables: Mapping[str, PrimitiveRule]) -> dict[str, PrimitiveRule]:
    """Per primitive, its rules in these tables, of which the first that can do it does it."""

    def rule_of(rules: list[PrimitiveRule]) -> PrimitiveRule:
        if len(rules) == 1:
            return rules[0]

        def rule(call: Call) -> list[Any] | None:
            for each in rules:
                results = each(call)
                if results is not None:
                    return results
            return None

        return rule

    names = {name: None for table in tables for name in table}
    return {name: rule_of([table[name] for table in tables if name in table]) for name in names}


def rules(around_resumed: Callable[[Tables], AbstractContextManager[object]]) -> Rules:
    """The rules of every family; what is to be around functions that JAX calls itself is given."""
    return Rules(
        primitive=apply_to_values,
        primitives={
            **_in_turn(LEAFWISE, ON_BATCH_AXES, IN_ANOTHER_SHAPE),
            "jit": jit,
            "cond": cond,
            "while": while_loop,
            "scan": scan,
            "remat2": remat,
            "checkpoint": remat,
            "custom_linear_solve": linear_solve,
            "custom_vmap_call": custom_vmap,
            "linear_call": linear_call,
            "remat_opt": remat_opt,
        },
        other=other,
        call=call,
        custom_jvp=custom_jvp,
        custom_vjp=custom_vjp,
        shard_map=shard_map,
        holding=HOLDING,
        held=held,
        around_resumed=around_resumed,
    )
