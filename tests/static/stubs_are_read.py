"""JAX's tree definitions have types only where this project's stubs are read."""

import jax
from jaxlib._jax import pytree
from typing_extensions import assert_type


def leaves(tree: object) -> int:
    treedef = jax.tree.flatten(tree)[1]
    assert_type(treedef, pytree.PyTreeDef)
    assert_type(treedef.num_leaves, int)
    return treedef.num_leaves
