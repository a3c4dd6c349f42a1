"""Arrays filled with one number, in another shape.

What moves, cuts, repeats or joins the entries of an array filled with one number gives one filled
with it: `reshape`, `slice`, `transpose`, `broadcast_in_dim` and the like keep such an array
implicit. That it is filled with the same number in its new shape is found out, by evaluating
`materialize` abstractly for both shapes: an array may stand for as many numbers as it has entries,
or for one over their count. And the class has to be one of which the shape and the dtype tell all,
with no fields, no auxiliary data and nothing of its own done at construction. Auxiliary data may
speak of axes by name or by number, and a field of entries by their place: whoever made the array
knew what that means in its own shape, and nothing tells what it would mean in another.
A handler of the same primitive for a class goes before what is done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax

from typedqax import _jax
from typedqax._aval import aval_of
from typedqax._call import Call, PrimitiveRule
from typedqax._entries import same_filling
from typedqax._stacks import takes_indices_in_bounds
from typedqax._value import EXTENT, ImplicitValue, extent, field_names, is_value, with_children


def _in_another_shape(call: Call) -> list[Any] | None:
    """The results, where the first operand is an array of one number; indices may follow it."""
    value, *beside = call.values
    return None if any(map(is_value, beside)) else _arrays_like(call, value)


def _gathered(call: Call) -> list[Any] | None:
    """The same; what is out of bounds may be filled with another number."""
    return _in_another_shape(call) if takes_indices_in_bounds(call.params) else None


def _joined(call: Call) -> list[Any] | None:
    """The same, where all operands are such arrays of the same number."""
    first, *others = call.values
    tree = jax.tree.structure(first)
    return _arrays_like(call, first, others) if _all_of(tree, others) else None


def _all_of(tree: Any, values: Sequence[Any]) -> bool:
    return all(is_value(value) and jax.tree.structure(value) == tree for value in values)


def _arrays_like(call: Call, value: Any, others: Sequence[Any] = ()) -> list[Any] | None:
    """The results as arrays of the class of `value`; None where they are not told to be that."""
    if not is_value(value) or not _shape_tells_all(type(value)):
        return None
    if any(call.params.get(name) is not None for name in ("sharding", "out_sharding")):
        return None
    avals = [aval_of(each) if is_value(each) else jax.typeof(each) for each in call.values]
    out = _jax.out_avals(call.primitive, avals, call.params)
    if out is None:
        return None
    dtype = value.__dict__[EXTENT].dtype
    with _jax.under(call.trace.parent):
        results = [with_children(value, {EXTENT: extent(aval.shape, dtype)}) for aval in out]
        same = all(same_filling(call.trace.run, value, each) for each in (*results, *others))
    return results if same else None


def _shape_tells_all(cls: type[ImplicitValue]) -> bool:
    """Whether an array of `cls` is told by its shape and its dtype, and can have any shape."""
    names = field_names(cls)
    written = hasattr(cls, "__post_init__") or getattr(cls.__init__, "_is_written", False)
    return not (names.children or names.auxiliary or written)


IN_ANOTHER_SHAPE: Final[Mapping[str, PrimitiveRule]] = {
    "broadcast_in_dim": _in_another_shape,
    "concatenate": _joined,
    "dynamic_slice": _in_another_shape,
    "gather": _gathered,
    "reshape": _in_another_shape,
    "rev": _in_another_shape,
    "slice": _in_another_shape,
    "split": _in_another_shape,
    "squeeze": _in_another_shape,
    "stack": _joined,
    "tile": _in_another_shape,
    "transpose": _in_another_shape,
    "unstack": _in_another_shape,
}
"""The rules, by primitive name."""
