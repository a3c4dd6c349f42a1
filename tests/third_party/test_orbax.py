"""orbax: parameters are saved, and restored to the types that they had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
import pytest

from tests.third_party.kit import int8, lora, numbers, same, zeros
from typedqax.arrays import Int8Matrix, LoraMatrix, Zeros


def test_implicit_parameters_come_back_as_what_they_were(tmp_path: Path) -> None:
    params = {"lora": lora(1, 3, 4), "bytes": int8(1, 3, 4), "dense": numbers(1, 4)}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "saved", params)
        checkpointer.wait_until_finished()
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, params)
        back = checkpointer.restore(tmp_path / "saved", abstract)
    same(back, params)
    assert isinstance(back["lora"], LoraMatrix)
    assert isinstance(back["bytes"], Int8Matrix)


def test_types_without_leaves_are_saved_as_nothing_and_put_back(tmp_path: Path) -> None:
    params = {"lora": lora(1, 3, 4), "bias": zeros(4)}

    def is_nothing(leaf: Any) -> bool:
        return leaf is None

    saved = jax.tree.map(lambda leaf: leaf if leaf.size else None, params)
    with ocp.StandardCheckpointer() as checkpointer:
        with pytest.raises(ValueError, match="zero size"):  # orbax's own refusal
            checkpointer.save(tmp_path / "refused", params)
        checkpointer.save(tmp_path / "saved", saved)
        checkpointer.wait_until_finished()
        back = checkpointer.restore(tmp_path / "saved", saved)
    back = jax.tree.map(
        lambda restored, own: own if restored is None else restored,
        back,
        params,
        is_leaf=is_nothing,
    )
    same(back, params)
    assert isinstance(back["bias"], Zeros)
