"""How an implicit array is shown: class, dtype, shape and fields, never its contents."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

import typedqax as tq
from tests.implicit_world import (
    CASES,
    LoraMatrix,
    Plain,
    Rows,
    Scaled,
    Zeros,
    transformed,
)


def test_repr_shows_class_dtype_shape_and_fields_but_no_contents() -> None:
    value = LoraMatrix(jnp.full((512, 512), 7.0), jnp.ones((512, 2)), jnp.ones((512, 2)), 0.5)
    assert (
        repr(value)
        == "LoraMatrix f32[512,512](w=f32[512,512], a=f32[512,2], b=f32[512,2], alpha=0.5)"
    )
    assert str(value) == f"{value}" == repr(value)


def test_repr_of_nested_and_leafless_arrays() -> None:
    assert repr(Zeros(shape=(), dtype=jnp.int8)) == "Zeros i8[]()"
    assert repr(Rows(jnp.ones(4), count=2)) == "Rows f32[2,4](row=f32[4], count=2)"
    assert repr(Scaled(Plain(jnp.ones(2)), jnp.ones(()))) == (
        "Scaled f32[2](x=Plain f32[2](inside=f32[2]), factor=f32[])"
    )


def test_repr_works_inside_jit_and_the_transform() -> None:
    shown = []
    value, _ = CASES["lora"].both()
    text = "LoraMatrix f32[3,4](w=f32[3,4], a=f32[3,2], b=f32[4,2], alpha=0.5)"
    jax.jit(lambda w: shown.append(repr(w)))(value)
    jax.vmap(lambda w: shown.append(repr(w)))(jax.tree.map(lambda x: x[None], value))
    assert shown == [text, text]
    transformed(lambda w: shown.append(repr(w)))(value)
    transformed(lambda w: shown.append(f"{w}"))(value)
    assert all("LoraMatrix" in s and "3,4" in s for s in shown)


def test_repr_never_fails() -> None:
    class Nasty:
        def __repr__(self) -> str:
            raise RuntimeError

    tree = jax.tree.structure(CASES["nested"].both()[0])
    for leaf in (None, object(), "s" * 1000, Nasty(), jax.ShapeDtypeStruct((1,), jnp.int8), 1):
        text = repr(jax.tree.unflatten(tree, [leaf] * tree.num_leaves))
        assert text.startswith("LoraMatrix ")
        assert len(text) < 1000
    half_made = object.__new__(LoraMatrix)
    assert repr(half_made).startswith("LoraMatrix ?")


def test_repr_of_an_array_whose_shape_is_unknown_says_so() -> None:
    class Broken(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            raise RuntimeError

    assert repr(Broken(jnp.ones(2))) == "Broken ?(x=f32[2])"


def test_the_gradient_of_integers_is_shown_as_float0() -> None:
    gradient = jax.grad(lambda each: tq.materialize(each).astype(float).sum(), allow_int=True)(
        Plain(jnp.ones((2, 3), jnp.int8))
    )
    assert repr(gradient) == "Plain float0[2,3](inside=float0[2,3])"


def test_a_repr_of_the_user_s_own_is_kept() -> None:
    class Own(tq.ImplicitArray):
        x: tq.ArrayValue

        def __repr__(self) -> str:
            return "own"

        def materialize(self) -> Array:
            return self.x

    assert repr(Own(jnp.ones(2))) == repr(dataclass(Own)(jnp.ones(2))) == "own"
