"""Stacks: implicit arrays with batch axes, and the primitives that act on those axes alone.

A primitive that moves, cuts, repeats or joins batch axes does the same to those of the leaves, and
what all of a stack share stays shared: `slice`, `dynamic_slice`, `gather` (of places that are in
bounds, or clipped), `split`, `squeeze`, `rev`, `reshape`, `transpose`, `broadcast_in_dim`,
`concatenate`, `stack`, `unstack`. So `layers[i]` is a layer, and `jnp.stack` makes layers again.
A handler of the same primitive for a class goes before what is done here. A class takes part whose
array fields all have annotations that name their axes; for others nothing tells what a stack is.
An array without leaves in such a field, `Zeros` say, is moved, cut and repeated by its shape, where
the same number fills it then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jax
from jax.lax import GatherDimensionNumbers, GatherScatterMode
from jax.tree_util import PyTreeDef

from typedqax import _jax
from typedqax._aval import aval_of, batch_shape, batched_fields, is_array_like, shape_of
from typedqax._call import Call, PrimitiveRule
from typedqax._entries import same_filling
from typedqax._fields import field_layouts
from typedqax._run import Run
from typedqax._value import child_values, field_names, is_value


def takes_batch_axes(value: Any) -> bool:
    """Whether the annotations of `value` say what stacked leaves mean."""
    fields, layouts = child_values(value), field_layouts(type(value))
    return bool(fields) and all(
        name in layouts
        and layouts[name].rank is not None
        and is_array_like(field)
        and (not is_value(field) or _is_leafless(field) or takes_batch_axes(field))
        for name, field in fields
    )


def _is_leafless(value: Any) -> bool:
    """Whether `value` has no leaf but the one that carries its shape."""
    return not field_names(type(value)).children


def _leafless_in(value: Any) -> Iterator[Any]:
    """The arrays without leaves among the fields of `value`, and theirs."""
    for _, field in child_values(value):
        if is_value(field):
            yield from [field] if _is_leafless(field) else _leafless_in(field)


def holds_leafless(value: Any) -> bool:
    """Whether there are such arrays: in another shape they may be filled with other numbers."""
    return next(_leafless_in(value), None) is not None


def _same_numbers(run: Run, value: Any, result: Any) -> bool:
    """Whether the arrays without leaves in `result` are filled as those in `value`."""
    pairs = zip(_leafless_in(value), _leafless_in(result), strict=True)
    return all(one is other or same_filling(run, one, other) for one, other in pairs)


def carriers(value: Any, batch: tuple[int, ...]) -> list[bool] | None:
    """Per leaf, whether it carries the first batch axes, `batch`; None where these are none."""
    if not is_value(value) or _is_leafless(value):
        return [True] if shape_of(value)[: len(batch)] == batch else None
    whole = batch_shape(value)
    if whole[: len(batch)] != batch:
        return None
    batched = batched_fields(value, whole)
    carry: list[bool] = []
    for name, field in child_values(value):
        if name in batched:
            inner = carriers(field, batch)
            if inner is None:
                return None
            carry += inner
        else:
            carry += [False] * len(jax.tree.leaves(field))
    return carry


@dataclass(frozen=True, slots=True)
class Stack:
    """An implicit array, taken apart into leaves.

    Attributes:
        tree: how it is made of its leaves.
        leaves: its leaves.
        batch: the batch axes.
        event: the shape of each of the stack.
        carry: per leaf, whether it has the batch axes; the others are shared.
    """

    tree: PyTreeDef
    leaves: list[Any]
    batch: tuple[int, ...]
    event: tuple[int, ...]
    carry: list[bool]

    @classmethod
    def of(cls, value: Any) -> Stack | None:
        """`value` as a stack, be it of no axes; None where nothing tells what a stack of it is."""
        if not is_value(value) or not takes_batch_axes(value):
            return None
        batch = batch_shape(value)
        carry = carriers(value, batch)
        if carry is None:
            return None
        leaves, tree = jax.tree.flatten(value)
        event = tuple(aval_of(value).shape[len(batch) :])
        return cls(tree, leaves, batch, event, carry if batch else [True] * len(leaves))

    @property
    def rank(self) -> int:
        """How many batch axes there are."""
        return len(self.batch)

    def event_of(self, place: int) -> tuple[int, ...]:
        """The shape of a leaf without batch axes."""
        shape = tuple(self.leaves[place].shape)
        return shape[self.rank :] if self.carry[place] else shape


# --- one stack -----------------------------------------------------------------------------------

Params = _jax.Params
LeafCall: TypeAlias = Callable[[tuple[int, ...]], tuple[Sequence[Any], Params]]
"""From the shape of a leaf without batch axes: the operands beside it, and the params."""


def _on_batch_axes(
    plan: Callable[[Stack, Sequence[Any], Params], LeafCall | None],
) -> PrimitiveRule:
    """The rule that applies a primitive to the leaves of its first operand that have batch axes."""

    def rule(call: Call) -> list[Any] | None:
        value, *others = call.values
        stack = None if any(map(is_value, others)) else Stack.of(value)
        if stack is None:
            return None
        several, count = call.primitive.multiple_results, 1
        columns: list[Any] = []
        with _jax.under(call.trace.parent):
            on_leaf = plan(stack, others, call.params)
            if on_leaf is None:
                return None
            for place, leaf in enumerate(stack.leaves):
                if not stack.carry[place]:
                    columns.append(leaf)
                    continue
                beside, params = on_leaf(stack.event_of(place))
                results = _jax.bind(call.primitive, [leaf, *beside], params)
                columns.append(results if several else [results])
                count = len(columns[-1])
            made = [
                jax.tree.unflatten(
                    stack.tree,
                    [
                        column[index] if carries else column
                        for column, carries in zip(columns, stack.carry, strict=True)
                    ],
                )
                for index in range(count)
            ]
            same = all(_same_numbers(call.trace.run, value, each) for each in made)
        return made if same else None

    return rule


def _slice(stack: Stack, beside: Sequence[Any], params: Params) -> LeafCall | None:
    starts, limits, strides = (
        params["start_indices"],
        params["limit_indices"],
        params["strides"],
    )
    rank = stack.rank
    if any(starts[rank:]) or tuple(limits[rank:]) != stack.event:
        return None
    if strides is not None and any(stride != 1 for stride in strides[rank:]):
        return None

    def on_leaf(event: tuple[int, ...]) -> tuple[Sequence[Any], Params]:
        return beside, {
            **params,
            "start_indices": (*starts[:rank], *[0] * len(event)),
            "limit_indices": (*limits[:rank], *event),
            "strides": None if strides is None else (*strides[:rank], *[1] * len(event)),
        }

    return on_leaf


def _dynamic_slice(stack: Stack, starts: Sequence[Any], params: Params) -> LeafCall | None:
    sizes, rank = params["slice_sizes"], stack.rank
    if not rank or tuple(sizes[rank:]) != stack.event:
        return None  # without batch axes it is the whole
    zero = jax.numpy.zeros((), starts[0].dtype)

    def on_leaf(event: tuple[int, ...]) -> tuple[Sequence[Any], Params]:
        return (*starts[:rank], *[zero] * len(event)), {
            **params,
            "slice_sizes": (*sizes[:rank], *event),
        }

    return on_leaf


def takes_indices_in_bounds(params: Params) -> bool:
    """Whether a gather takes nothing out of bounds, which may be what no array of a class holds."""
    return GatherScatterMode.from_any(params["mode"]) in (
        GatherScatterMode.CLIP,
        GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _gather(stack: Stack, beside: Sequence[Any], params: Params) -> LeafCall | None:
    numbers: GatherDimensionNumbers = params["dimension_numbers"]
    sizes, rank, events = params["slice_sizes"], stack.rank, len(stack.event)
    if not takes_indices_in_bounds(params):
        return None
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    if any(axis >= rank for axis in gone):
        return None
    indices = beside[0]
    out = len(numbers.offset_dims) + indices.ndim - 1
    kept = len(numbers.offset_dims) - events
    last = tuple(range(out - events, out))
    if tuple(sizes[rank:]) != stack.event or tuple(numbers.offset_dims[kept:]) != last:
        return None
    # An axis that is taken whole begins at zero, whatever its index says.
    columns = [place for place, axis in enumerate(numbers.start_index_map) if axis < rank]
    if len(columns) < len(numbers.start_index_map):
        kept_columns = [indices[..., column : column + 1] for column in columns]
        indices = jax.numpy.concatenate([indices[..., :0], *kept_columns], axis=-1)
    index_map = tuple([numbers.start_index_map[column] for column in columns])

    def on_leaf(event: tuple[int, ...]) -> tuple[Sequence[Any], Params]:
        first = out - events
        offsets = (*numbers.offset_dims[:kept], *range(first, first + len(event)))
        return [indices], {
            **params,
            "dimension_numbers": numbers._replace(offset_dims=offsets, start_index_map=index_map),
            "slice_sizes": (*sizes[:rank], *event),
        }

    return on_leaf


def _of_dimensions(name: str) -> Callable[[Stack, Sequence[Any], Params], LeafCall | None]:
    """The plan of what a primitive does to the axes, or the axis, that a param names."""

    def plan(stack: Stack, beside: Sequence[Any], params: Params) -> LeafCall | None:
        named = params[name]
        axes = (named,) if isinstance(named, int) else named
        if not all(0 <= axis < stack.rank for axis in axes):
            return None
        return lambda event: (beside, params)

    return plan


def _transpose(stack: Stack, beside: Sequence[Any], params: Params) -> LeafCall | None:
    order, rank = tuple(params["permutation"]), stack.rank
    if order[rank:] != tuple(range(rank, len(order))):
        return None

    def on_leaf(event: tuple[int, ...]) -> tuple[Sequence[Any], Params]:
        kept = range(rank, rank + len(event))
        return beside, {**params, "permutation": (*order[:rank], *kept)}

    return on_leaf


def _reshape(stack: Stack, beside: Sequence[Any], params: Params) -> LeafCall | None:
    sizes, events = tuple(params["new_sizes"]), len(stack.event)
    batch, event = sizes[: len(sizes) - events], sizes[len(sizes) - events :]
    if event != stack.event or math.prod(batch) != math.prod(stack.batch):
        return None
    if params["dimensions"] is not None or params["sharding"] is not None:
        return None
    return lambda event: (beside, {**params, "new_sizes": (*batch, *event)})


def _broadcast(stack: Stack, beside: Sequence[Any], params: Params) -> LeafCall | None:
    shape, axes, rank = tuple(params["shape"]), tuple(params["broadcast_dimensions"]), stack.rank
    first = len(shape) - len(stack.event)
    if shape[first:] != stack.event or axes[rank:] != tuple(range(first, len(shape))):
        return None
    if params["sharding"] is not None:
        return None

    def on_leaf(event: tuple[int, ...]) -> tuple[Sequence[Any], Params]:
        return beside, {
            **params,
            "shape": (*shape[:first], *event),
            "broadcast_dimensions": (*axes[:rank], *range(first, first + len(event))),
        }

    return on_leaf


# --- several stacks ------------------------------------------------------------------------------


def _join(call: Call) -> list[Any] | None:
    """Stacks of one type, joined along a batch axis of theirs, or a new one."""
    stacks = [Stack.of(value) for value in call.values]
    first, *rest = stacks
    if first is None:
        return None
    kept = [first]
    for other in rest:
        if other is None or other.rank != first.rank or other.tree != first.tree:
            return None
        kept.append(other)
    is_new = call.primitive.name == "stack"
    if call.params["axis" if is_new else "dimension"] >= first.rank + is_new:
        return None
    places = range(len(first.leaves))
    if any(_leaf_type(other, i) != _leaf_type(first, i) for other in rest for i in places):
        return None
    shared = [
        all(not stack.carry[i] and stack.leaves[i] is first.leaves[i] for stack in kept)
        for i in places
    ]
    with _jax.under(call.trace.parent):
        leaves = [
            first.leaves[i]
            if shared[i]
            else _jax.bind(call.primitive, [_repeated(stack, i) for stack in kept], call.params)
            for i in places
        ]
        made = jax.tree.unflatten(first.tree, leaves)
        same = all(_same_numbers(call.trace.run, value, made) for value in call.values)
    return [made] if same else None


def _leaf_type(stack: Stack | None, place: int) -> Any:
    return None if stack is None else (stack.event_of(place), stack.leaves[place].dtype)


def _repeated(stack: Stack, place: int) -> Any:
    """A leaf with the batch axes, which one that is shared does not have."""
    leaf = stack.leaves[place]
    if stack.carry[place]:
        return leaf
    return jax.numpy.broadcast_to(leaf, (*stack.batch, *leaf.shape))


ON_BATCH_AXES: Final[Mapping[str, PrimitiveRule]] = {
    "slice": _on_batch_axes(_slice),
    "dynamic_slice": _on_batch_axes(_dynamic_slice),
    "gather": _on_batch_axes(_gather),
    "split": _on_batch_axes(_of_dimensions("axis")),
    "unstack": _on_batch_axes(_of_dimensions("axis")),
    "squeeze": _on_batch_axes(_of_dimensions("dimensions")),
    "rev": _on_batch_axes(_of_dimensions("dimensions")),
    "transpose": _on_batch_axes(_transpose),
    "reshape": _on_batch_axes(_reshape),
    "broadcast_in_dim": _on_batch_axes(_broadcast),
    "concatenate": _join,
    "stack": _join,
}
"""The rules, by primitive name."""
