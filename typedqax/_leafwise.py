"""Primitives that say nothing of an array's numbers: they act on an implicit array's leaves.

A handler of the same primitive for a class goes before what is done here, as for every primitive.
What is here never makes anything dense, whatever the class:

- on each leaf: `stop_gradient`, `copy`, `name` (`checkpoint_name`), `optimization_barrier`,
  `pvary`;
- `device_put`, `reshard` and `sharding_constraint`: a leaf of the array's own shape is placed as
  the array is to be, any other leaf is put whole on every device, or left to the compiler
  (`sharding_constraint`); what replicates holds of all leaves;
- `select_n` with one number to choose by, between arrays of one type: the leaves are chosen;
- `zeros_like`: zeros of the array's shape, for which its numbers are not looked at;
- the array itself, where its params say that nothing changes: `convert_element_type` to its own
  dtype, `reduce_precision` to no less than it has, `reshape`, `transpose`, `broadcast_in_dim`,
  `slice`, `squeeze`, `rev`, `pad`, `tile`, `concatenate` of one, and reductions over no axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from typedqax import _jax
from typedqax._aval import aval_of, is_array_like
from typedqax._call import Call, PrimitiveRule
from typedqax._trace import densify
from typedqax._value import is_value

# --- on each leaf --------------------------------------------------------------------------------


def _on_each_leaf(call: Call) -> list[Any]:
    """The one operand, with the primitive applied to its leaves."""
    (value,) = call.values
    leaves, tree = jax.tree.flatten(value)
    with _jax.under(call.trace.parent):
        results = [
            leaf if is_empty(leaf) else _jax.bind(call.primitive, [leaf], call.params)
            for leaf in leaves
        ]
    return [jax.tree.unflatten(tree, results)]


def _on_all_leaves(call: Call) -> list[Any]:
    """All operands, with the primitive applied once to the leaves of all."""
    leaves, tree = jax.tree.flatten(list(call.values))
    full = [place for place, leaf in enumerate(leaves) if not is_empty(leaf)]
    if full:
        with _jax.under(call.trace.parent):
            results = _jax.bind(call.primitive, [leaves[place] for place in full], call.params)
        for place, result in zip(full, results, strict=True):
            leaves[place] = result
    values: list[Any] = jax.tree.unflatten(tree, leaves)
    return values


def _choice(call: Call) -> list[Any] | None:
    """One of several arrays of a type, leaf by leaf: the same one for all entries."""
    which, *cases = call.values
    if is_value(which) or jax.numpy.ndim(which) or not all(map(is_value, cases)):
        return None
    leaves = [jax.tree.leaves(case) for case in cases]
    tree, types = jax.tree.structure(cases[0]), _leaf_types(leaves[0])
    for case, own in zip(cases[1:], leaves[1:], strict=True):
        if jax.tree.structure(case) != tree or _leaf_types(own) != types:
            return None
    with _jax.under(call.trace.parent):
        chosen = [
            same[0] if is_empty(same[0]) else _jax.bind(call.primitive, [which, *same], {})
            for same in zip(*leaves, strict=True)
        ]
    return [jax.tree.unflatten(tree, chosen)]


def _leaf_types(leaves: list[Any]) -> list[Any]:
    return [(jax.numpy.shape(leaf), jax.typeof(leaf).dtype) for leaf in leaves]


def is_empty(leaf: Any) -> bool:
    """Whether a leaf holds nothing: the one that only carries a shape, above all."""
    return is_array_like(leaf) and 0 in leaf.shape


def _vary(call: Call) -> list[Any]:
    """The one operand, its leaves varying over the axes of a `shard_map` that they do not yet."""
    (value,) = call.values
    leaves, tree = jax.tree.flatten(value)
    results = []
    with _jax.under(call.trace.parent):
        for leaf in leaves:
            varying = _jax.varying_axes(jax.typeof(leaf))
            axes = tuple([axis for axis in call.params["axes"] if axis not in varying])
            results.append(
                _jax.bind(call.primitive, [leaf], {**call.params, "axes": axes}) if axes else leaf
            )
    return [jax.tree.unflatten(tree, results)]


# --- placement -----------------------------------------------------------------------------------


def _device_put(call: Call) -> list[Any] | None:
    params = call.params
    operands, devices, sources, copies = [], [], [], []
    for value, device, source, copy in zip(
        call.values, params["devices"], params["srcs"], params["copy_semantics"], strict=True
    ):
        shape = _shape(value)
        for leaf in jax.tree.leaves(value):
            place = _placement_of_leaf(device, same_shape=_shape(leaf) == shape)
            if place is None and device is not None:
                return None
            operands.append(leaf)
            devices.append(place)
            sources.append(source)
            copies.append(copy)
    leaf_params = dict(
        params, devices=tuple(devices), srcs=tuple(sources), copy_semantics=tuple(copies)
    )
    with _jax.under(call.trace.parent):
        results = _jax.bind(call.primitive, operands, leaf_params)
    values: list[Any] = jax.tree.unflatten(jax.tree.structure(list(call.values)), results)
    return values


def _placement_of_leaf(place: Any, *, same_shape: bool) -> Any:
    """Where a leaf goes when its array goes to `place`; None where that cannot be told."""
    if same_shape or place is None or not _splits(place):
        return place
    if isinstance(place, NamedSharding):
        return NamedSharding(place.mesh, PartitionSpec(), memory_kind=place.memory_kind)
    return None


def _splits(place: Any) -> bool:
    """Whether `place` speaks of single axes: a sharding does, a device does not."""
    if isinstance(place, NamedSharding):
        return place.spec != PartitionSpec() or not place.is_fully_replicated
    if isinstance(place, SingleDeviceSharding):
        return False
    return isinstance(place, Sharding) or hasattr(place, "layout")


def _sharding_constraint(call: Call) -> list[Any]:
    (value,) = call.values
    params = call.params
    leaves, tree = jax.tree.flatten(value)
    shape, sharding = _shape(value), params["sharding"]
    replicates = (
        params["layout"] is None
        and not params["unconstrained_dims"]
        and (sharding.is_fully_replicated)
    )
    whole = dict(params)
    if isinstance(sharding, NamedSharding):
        whole["sharding"] = NamedSharding(
            sharding.mesh, PartitionSpec(), memory_kind=sharding.memory_kind
        )
    results = []
    with _jax.under(call.trace.parent):
        for leaf in leaves:
            if is_empty(leaf):
                results.append(leaf)
            elif _shape(leaf) == shape:
                results.append(_jax.bind(call.primitive, [leaf], params))
            else:
                results.append(_jax.bind(call.primitive, [leaf], whole) if replicates else leaf)
    return [jax.tree.unflatten(tree, results)]


def _reshard(call: Call) -> list[Any] | None:
    """The one operand, split in its type as is said; None where its leaves cannot tell it."""
    (value,) = call.values
    sharding = call.params["dst_sharding"]
    leaves, tree = jax.tree.flatten(value)
    shape, split = _shape(value), tuple(sharding.spec)
    results = []
    with _jax.under(call.trace.parent):
        for leaf in leaves:
            own = {shape: split, (*shape, 0): (*split, None)}.get(_shape(leaf), ())
            place = NamedSharding(
                sharding.mesh, PartitionSpec(*own), memory_kind=sharding.memory_kind
            )
            params = {**call.params, "dst_sharding": place}
            results.append(_jax.bind(call.primitive, [_jax.canonicalize(leaf)], params))
        resharded = jax.tree.unflatten(tree, results)
        run = call.trace.run.quieted()
        dense = jax.eval_shape(lambda value: densify(value, run), resharded)
        told = (None,) * len(shape) if dense.sharding is None else _jax.split_of(dense)
        return [resharded] if told == split else None


# --- what does not look at the numbers -----------------------------------------------------------


def _zeros_like(call: Call) -> list[Any]:
    (value,) = call.values
    aval = aval_of(value)
    with _jax.under(call.trace.parent):
        return [jax.numpy.zeros(aval.shape, aval.dtype)]


# --- what changes nothing ------------------------------------------------------------------------


def _itself_where(
    changes_nothing: Callable[[tuple[int, ...], Any, _jax.Params], bool],
) -> PrimitiveRule:
    """The rule that gives the first operand back where the params change nothing of it."""

    def rule(call: Call) -> list[Any] | None:
        value = call.values[0]
        if not is_value(value):
            return None
        aval = aval_of(value)
        try:
            same = changes_nothing(tuple(aval.shape), aval.dtype, call.params)
        except KeyError:  # a param that the primitive always has: JAX will say which
            return None
        return [value] if same else None

    return rule


def _same_dtype(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del shape
    return params["new_dtype"] == dtype and params.get("sharding") is None


def _same_precision(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del shape
    bits = _jax.float_bits(dtype)
    if bits is None:
        return False
    return bool(params["exponent_bits"] >= bits[0] and params["mantissa_bits"] >= bits[1])


def _same_shape(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del dtype
    return (
        tuple(params["new_sizes"]) == shape
        and params.get("dimensions") is None
        and params.get("sharding") is None
    )


def _same_order(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del dtype
    return tuple(params["permutation"]) == tuple(range(len(shape)))


def _not_broadcast(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del dtype
    return (
        tuple(params["shape"]) == shape
        and tuple(params["broadcast_dimensions"]) == tuple(range(len(shape)))
        and params.get("sharding") is None
    )


def _whole(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del dtype
    strides = params["strides"]
    return (
        not any(params["start_indices"])
        and tuple(params["limit_indices"]) == shape
        and (strides is None or all(stride == 1 for stride in strides))
    )


def _no_axes(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del shape, dtype
    return not (params["dimensions"] if "dimensions" in params else params["axes"])


def _sum_of_no_axes(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    return _no_axes(shape, dtype, params) and params.get("out_sharding") is None


def _not_padded(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del shape, dtype
    return all(tuple(each) == (0, 0, 0) for each in params["padding_config"])


def _once(shape: tuple[int, ...], dtype: Any, params: _jax.Params) -> bool:
    del shape, dtype
    return math.prod(params["reps"]) == 1


def _alone(call: Call) -> list[Any] | None:
    return [call.values[0]] if len(call.values) == 1 else None


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(aval_of(value).shape if is_value(value) else jax.numpy.shape(value))


LEAFWISE: Final[Mapping[str, PrimitiveRule]] = {
    "stop_gradient": _on_each_leaf,
    "copy": _on_each_leaf,
    "name": _on_each_leaf,
    "optimization_barrier": _on_all_leaves,
    "pvary": _vary,
    "device_put": _device_put,
    "sharding_constraint": _sharding_constraint,
    "reshard": _reshard,
    "select_n": _choice,
    "zeros_like": _zeros_like,
    "convert_element_type": _itself_where(_same_dtype),
    "reduce_precision": _itself_where(_same_precision),
    "reshape": _itself_where(_same_shape),
    "transpose": _itself_where(_same_order),
    "broadcast_in_dim": _itself_where(_not_broadcast),
    "slice": _itself_where(_whole),
    "squeeze": _itself_where(_no_axes),
    "rev": _itself_where(_no_axes),
    "pad": _itself_where(_not_padded),
    "tile": _itself_where(_once),
    "concatenate": _alone,
    "reduce_sum": _itself_where(_sum_of_no_axes),
    "reduce_max": _itself_where(_sum_of_no_axes),
    "reduce_min": _itself_where(_sum_of_no_axes),
    "reduce_prod": _itself_where(_sum_of_no_axes),
}
"""The rules, by primitive name."""
