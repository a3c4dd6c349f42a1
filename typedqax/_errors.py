"""Every exception of typedqax: each takes facts, keeps them, and writes its own text."""

from __future__ import annotations


class TypedQaxError(Exception):
    """The base of all errors that typedqax raises."""


class SignatureError(TypedQaxError, TypeError):
    """A handler's own signature says something that cannot be dispatched on."""


class AmbiguityError(TypedQaxError, TypeError):
    """Two handlers match the same operands and neither is more specific."""


class DuplicateHandlerError(TypedQaxError, TypeError):
    """Two handlers accept exactly the same operands at the same precedence."""


class ContractError(TypedQaxError, TypeError):
    """A field, an operand, a param or a result is not what its annotation says."""


class ShapeError(TypedQaxError, ValueError):
    """The fields of an implicit array no longer describe an array of its kind."""


class MaterializationError(TypedQaxError, TypeError):
    """An implicit array would have become dense where that is forbidden."""


class UninitializedAval(TypedQaxError, AttributeError):
    """The shape or dtype of an implicit array was asked for before it can be known."""


class MaterializationWarning(UserWarning):
    """An implicit array was made dense because nothing better could be done."""
