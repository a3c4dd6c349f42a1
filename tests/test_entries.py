"""Primitives that compute each entry of a result from those at its place."""

from __future__ import annotations

from typedqax import ops
from typedqax._entries import ENTRYWISE


def test_entrywise_primitives_are_those_of_the_ops_that_are_elementwise() -> None:
    groups = ops.elementwise_unary.ops + ops.elementwise_binary.ops
    others = {"convert_element_type", "select_n", "clamp"}
    named = {op.name for op in groups} - {"stop_gradient"}  # no primitive on JAX's side
    assert named | others <= ENTRYWISE
    in_later_versions = ENTRYWISE - named - others
    assert not any(hasattr(ops, name) for name in in_later_versions)
