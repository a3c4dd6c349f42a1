"""The classes, annotations and signatures that the tests of the resolver speak of."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, List, Literal, Optional, TypeVar, Union  # noqa: UP035  # in cases

import jaxtyping
import numpy as np
from beartype.vale import Is
from jax import Array
from jax.typing import ArrayLike

from typedqax._annotations import ParameterFacts, signature_of
from typedqax._signature import Dense, Operand, Signature
from typedqax._value import ImplicitValue


class Structured(ImplicitValue): ...


class Zeros(Structured): ...


class Eye(Structured): ...


class LoraMatrix(ImplicitValue): ...


class QuantMatrix(ImplicitValue): ...


class LoraQuant(LoraMatrix, QuantMatrix): ...


TC = TypeVar("TC", Zeros, LoraMatrix)
TB = TypeVar("TB", bound=Structured)
P = Is[lambda value: True]
Q = Is[lambda value: True]

CLASSES: dict[str, type] = {
    "Dense": Dense,
    "ImplicitArray": ImplicitValue,
    **{c.__name__: c for c in (Structured, Zeros, Eye, LoraMatrix, QuantMatrix, LoraQuant)},
}
NAMESPACE: dict[str, Any] = {
    **{
        name: getattr(jaxtyping, name)
        for name in [
            "AbstractDtype",
            "BFloat16",
            "Bool",
            "Complex",
            "Complex64",
            "Float",
            "Float16",
            "Float32",
            "Float64",
            "Inexact",
            "Int",
            "Int4",
            "Int8",
            "Int32",
            "Integer",
            "Key",
            "Num",
            "Real",
            "Shaped",
            "UInt",
            "UInt8",
            "Scalar",
            "PyTree",
        ]
    },
    **CLASSES,
    "Array": Array,
    "ArrayLike": ArrayLike,
    "Annotated": Annotated,
    "Any": Any,
    "List": List,  # noqa: UP006  # in cases, as above
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
    "P": P,
    "Q": Q,
    "TB": TB,
    "TC": TC,
    "np": np,
}
CASES: Mapping[str, Any] = json.loads(
    (Path(__file__).parent / "resolver_cases.json").read_text(encoding="utf-8")
)


def annotation(text: str) -> Any:
    """The object that an annotation in the cases stands for."""
    if text == "<unannotated>":
        return inspect.Parameter.empty
    return eval(text, dict(NAMESPACE))  # our own cases


def signature(
    args: Sequence[str],
    vararg: str | None = None,
    min_arity: int | None = None,
    commutative: bool = False,
) -> Signature:
    """The signature of a handler whose operands are annotated so."""
    least = len(args) if min_arity is None else min_arity
    facts: list[ParameterFacts] = [
        (f"x{i}", annotation(text), inspect.Parameter.POSITIONAL_ONLY, i >= least)
        for i, text in enumerate(args)
    ]
    if vararg is not None:
        facts.append(("rest", annotation(vararg), inspect.Parameter.VAR_POSITIONAL, False))
    found = signature_of(facts)
    return found.commutative() if commutative else found


def operands(point: Sequence[Sequence[Any]]) -> tuple[Operand, ...]:
    """A point of the cases."""
    return tuple(Operand(CLASSES[c], dtype, tuple(shape)) for c, dtype, shape in point)
