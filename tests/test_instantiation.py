"""Instantiated annotations: what is bound is written as sizes; beartype accepts what they say."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from beartype.door import is_bearable
from jax import Array
from jaxtyping import Float, Int

from tests.resolver_world import Zeros
from typedqax._annotations import operand_patterns
from typedqax._instantiation import instantiate


def test_instantiated_annotation_has_sizes_for_names() -> None:
    (pattern,) = operand_patterns(Float[Array, "*b n 3 _ n+1"])
    hint = instantiate(pattern, {"*b": (2, 5), "n": 4})
    assert hint.dim_str == "2 5 4 3 _ 5"
    assert hint.dtype is Float


def test_instantiated_annotation_leaves_open_what_is_not_bound() -> None:
    (pattern,) = operand_patterns(Int[Array, "#*b n #m"])
    assert instantiate(pattern, {"m": 4}).dim_str == "... _ #4"


@pytest.mark.parametrize(
    ("written", "value", "accepted"),
    [
        pytest.param(Float[Array, "n"], jnp.ones(3), True, id="dense"),
        pytest.param(Float[Array, "n"], np.ones(3, np.float32), True, id="numpy is dense"),
        pytest.param(Float[Array, "n"], jnp.ones(4), False, id="wrong size"),
        pytest.param(Float[Array, "n"], jnp.ones(3, jnp.int32), False, id="wrong dtype"),
        pytest.param(Array, jnp.ones(7), True, id="no shape"),
        pytest.param(Any, jnp.ones(7), True, id="anything"),
        pytest.param(Zeros, jnp.ones(7), False, id="wrong class"),
    ],
)
def test_beartype_accepts_what_the_instantiated_annotation_says(
    written: Any, value: Any, accepted: bool
) -> None:
    (pattern,) = operand_patterns(written)
    assert is_bearable(value, instantiate(pattern, {"n": 3})) is accepted
