"""Mistakes in the one method that every implicit array has, and in what a class says of itself."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq


class Forgotten(tq.ImplicitArray):
    w: Array


@dataclass
class ForgottenDecorated(tq.ImplicitArray):
    w: Array


class Abstract(tq.ImplicitArray):
    w: Array

    @abstractmethod
    def rank(self) -> int: ...

    def materialize(self) -> Array:
        return self.w


class StillAbstract(Abstract):
    pass


Inner = TypeVar("Inner", bound=Array)


class ForgottenGeneric(tq.ImplicitArray, Generic[Inner]):
    x: Inner


class Misspelt(tq.ImplicitArray):
    w: Array

    def materialise(self) -> Array:
        return self.w


def constructing_what_is_abstract(w: Array) -> None:
    # E[mypy]: abstract: Cannot instantiate abstract class "Forgotten" with abstract attribute "materialize"
    # E[pyright]: reportAbstractUsage: "ImplicitArray.materialize" is not implemented
    Forgotten(w)
    # E[mypy]: abstract: Cannot instantiate abstract class "ForgottenDecorated"
    # E[pyright]: reportAbstractUsage: "ImplicitArray.materialize" is not implemented
    ForgottenDecorated(w)
    # E[mypy]: abstract: Cannot instantiate abstract class "StillAbstract" with abstract attribute "rank"
    # E[pyright]: reportAbstractUsage: "Abstract.rank" is not implemented
    StillAbstract(w)
    # E[mypy]: abstract: Cannot instantiate abstract class "ForgottenGeneric"
    # E[pyright]: reportAbstractUsage: "ImplicitArray.materialize" is not implemented
    ForgottenGeneric(w)
    # E[mypy]: abstract: Cannot instantiate abstract class "Misspelt" with abstract attribute "materialize"
    # E[pyright]: reportAbstractUsage: "ImplicitArray.materialize" is not implemented
    Misspelt(w)
    # E[mypy]: abstract: Cannot instantiate abstract class "ImplicitArray"
    # E[pyright]: reportAbstractUsage: "ImplicitArray.materialize" is not implemented
    tq.ImplicitArray()


class ReturnsText(tq.ImplicitArray):
    w: Array

    # E[mypy]: override: Return type "str" of "materialize" incompatible with return type "Array"
    # E[pyright]: reportIncompatibleMethodOverride: "str" is not assignable to "Array"
    def materialize(self) -> str:
        return "dense"


class ReturnsNothing(tq.ImplicitArray):
    w: Array

    # E[mypy]: override: Return type "None" of "materialize" incompatible with return type "Array"
    # E[pyright]: reportIncompatibleMethodOverride: "None" is not assignable to "Array"
    def materialize(self) -> None:
        self.w.sum()


class ReturnsAList(tq.ImplicitArray):
    w: Array

    # E[mypy]: override: Return type "list[Array]" of "materialize" incompatible
    # E[pyright]: reportIncompatibleMethodOverride: "list[Array]" is not assignable to "Array"
    def materialize(self) -> list[Array]:
        return [self.w]


class SaysOneThingAndDoesAnother(tq.ImplicitArray):
    w: Array
    scale: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "n"]:
        # E[mypy]: return-value: got "float", expected "Array"
        # E[pyright]: reportReturnType: "float" is not assignable to return type "Array"
        return self.scale


class ForgetsToReturn(tq.ImplicitArray):
    w: Array

    # E[mypy]: return: Missing return statement
    # E[pyright]: reportReturnType: must return value on all code paths
    def materialize(self) -> Array:
        print(self.w * 2)


class Unannotated(tq.ImplicitArray):
    w: Array

    # E[mypy]: no-untyped-def: Function is missing a return type annotation
    # E[pyright]: none: pyright infers the type, in standard mode
    def materialize(self):
        return self.w


class TakesAnArgument(tq.ImplicitArray):
    w: Array

    # E[mypy]: override: Signature of "materialize" incompatible with supertype
    # E[pyright]: reportIncompatibleMethodOverride: Positional parameter count mismatch
    def materialize(self, scale: float) -> Array:
        return self.w * scale


# E[mypy]: call-arg: Unexpected keyword argument "commute_op" for "__init_subclass__"
# E[pyright]: reportCallIssue: No parameter named "commute_op"
# E[pyright]: reportGeneralTypeIssues: Incorrect keyword arguments for __init_subclass__
class MisspeltKeyword(tq.ImplicitArray, commute_op=False):
    def materialize(self) -> Array:
        return jnp.zeros(3)


# E[mypy]: arg-type: Argument "materialization" to "__init_subclass__" of
# E[pyright]: reportArgumentType: parameter "materialization"
# E[pyright]: reportGeneralTypeIssues: Incorrect keyword arguments for __init_subclass__
class NoSuchPolicy(tq.ImplicitArray, materialization="never"):
    def materialize(self) -> Array:
        return jnp.zeros(3)


# E[mypy]: arg-type: Argument "warn_on_materialize" to "__init_subclass__" of
# E[pyright]: reportArgumentType: parameter "warn_on_materialize"
# E[pyright]: reportGeneralTypeIssues: Incorrect keyword arguments for __init_subclass__
class NotABool(tq.ImplicitArray, warn_on_materialize="no"):
    def materialize(self) -> Array:
        return jnp.zeros(3)
