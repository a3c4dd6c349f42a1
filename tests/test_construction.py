"""How an implicit array is made: auxiliary data is hashable and holds no arrays."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import typedqax as tq
from tests.implicit_world import (
    Plain,
)


class Aux(tq.ImplicitArray):
    x: tq.ArrayValue
    extra: Any = tq.aux_field(default=None)

    def materialize(self) -> Array:
        return self.x


UNHASHABLE = {"list": [1, 2], "dict": {}, "set": {1}, "tuple of a list": ([1],)}


@pytest.mark.parametrize("extra", UNHASHABLE.values(), ids=UNHASHABLE.keys())
def test_unhashable_auxiliary_data_is_a_clear_error(extra: Any) -> None:
    with pytest.raises(tq.ContractError) as caught:
        Aux(jnp.ones(2), extra)
    text = str(caught.value)
    assert text.startswith(f"Aux.extra is auxiliary data, but holds a {type(extra).__name__},")
    assert "use a tuple, a frozenset, a frozen dataclass" in text


ARRAYS = {
    "jax array": (jnp.ones(2), "an array"),
    "numpy array": (np.ones(2), "an array"),
    "implicit array": (Plain(jnp.ones(2)), "an implicit array"),
    "tuple of an array": ((1, jnp.ones(2)), "an array"),
    "numpy array in a tuple": (((np.ones(2),),), "an array"),
}


@pytest.mark.parametrize(("extra", "what"), ARRAYS.values(), ids=ARRAYS.keys())
def test_array_valued_auxiliary_data_is_a_clear_error(extra: Any, what: str) -> None:
    with pytest.raises(tq.ContractError) as caught:
        Aux(jnp.ones(2), extra)
    text = str(caught.value)
    assert text.startswith("Aux.extra is auxiliary data, but holds ")
    assert what in text.splitlines()[0]
    assert "without aux_field" in text


def test_a_traced_number_as_auxiliary_data_is_a_clear_error() -> None:
    with pytest.raises(tq.ContractError, match=r"Aux\.extra is auxiliary data, but holds an array"):
        jax.jit(lambda s: Aux(jnp.ones(2), s))(1.0)


@pytest.mark.parametrize(
    "extra", [1, 1.5, "s", (1, "s"), None, jnp.float32, np.dtype("int8"), jax.lax.add_p, len]
)
def test_hashable_auxiliary_data_is_fine(extra: Any) -> None:
    value = Aux(jnp.ones(2), extra)
    assert jax.tree.map(lambda x: x, value).extra == extra


def test_aux_field_takes_a_default_factory_and_keyword_only() -> None:
    class Options(tq.ImplicitArray):
        x: tq.ArrayValue
        names: tuple[str, ...] = tq.aux_field(default_factory=tuple)
        flag: bool = tq.aux_field(default=False, kw_only=True)

        def materialize(self) -> Array:
            return self.x

    assert Options(jnp.ones(2)).names == ()
    assert Options(jnp.ones(2), ("a",), flag=True).flag
    with pytest.raises(TypeError, match="positional"):
        Options(jnp.ones(2), ("a",), True)  # type: ignore[arg-type, call-arg]  # the mistake


def test_aux_field_keeps_metadata_of_the_user_s() -> None:
    class Described(tq.ImplicitArray):
        x: tq.ArrayValue
        unit: str = tq.aux_field(default="m", metadata={"doc": "the unit"})

        def materialize(self) -> Array:
            return self.x

    assert dataclasses.fields(Described(jnp.ones(2)))[1].metadata["doc"] == "the unit"


def test_the_signature_of_a_class_is_that_of_its_constructor() -> None:
    class Written(tq.ImplicitArray):
        x: tq.ArrayValue

        def __init__(self, numbers: Any, *, negative: bool = False) -> None:
            self.x = -numbers if negative else numbers

        def materialize(self) -> Array:
            return self.x

    def names(cls: Any) -> list[str]:
        return list(inspect.signature(cls).parameters)

    assert names(Aux) == ["x", "extra", "shape", "dtype"]
    assert names(Written) == ["numbers", "negative"]
    assert not hasattr(Aux(jnp.ones(2)), "__signature__")
