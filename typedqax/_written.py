"""Where a class and its fields, or what a function returns, stand in a file: read from source."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType

from typedqax._origin import Place


@dataclass(frozen=True, slots=True)
class WrittenClass:
    """Where a class and its fields stand in a file.

    Attributes:
        file: the file; `"<unknown>"` where there is none.
        line: the line of the class statement, or of its first decorator.
        fields: the line of each annotated name in its body.
        found: whether the statement was found.
    """

    file: str
    line: int
    fields: Mapping[str, int]
    found: bool = True

    @classmethod
    def of(cls, described: type) -> WrittenClass:
        """Where `described` stands, as far as its source is there to read."""
        try:
            file = inspect.getsourcefile(described) or "<unknown>"
            lines, first = inspect.getsourcelines(described)
            body = getattr(ast.parse(textwrap.dedent("".join(lines))).body[0], "body", [])
        except (OSError, TypeError, SyntaxError):
            file = getattr(sys.modules.get(described.__module__), "__file__", None) or "<unknown>"
            return cls(file, 1, {}, found=False)
        fields = {
            node.target.id: first + node.lineno - 1
            for node in body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        return cls(file, first, fields)

    def place(self, field: str | None = None) -> Place:
        """The place of a field, or of the class."""
        return Place(self.file, self.fields.get(field or "", self.line))


def method_place(cls: type, name: str) -> Place | None:
    """Where the method of this name was written that instances of `cls` have."""
    return Place.of(inspect.unwrap(inspect.getattr_static(cls, name)))


def returned(function: object) -> Iterator[tuple[ast.expr, int]]:
    """What a function returns, with its line, as far as its source is there to read."""
    body, first = _body(function)
    for node in _own_nodes(body):
        if isinstance(node, ast.Return) and node.value is not None:
            values = [node.value]
            while values:
                value = values.pop()
                if isinstance(value, ast.IfExp):
                    values += [value.body, value.orelse]
                else:
                    yield value, first + value.lineno - 1


def gives_nothing(function: object) -> bool:
    """Whether a function does something, as far as its source says, and never returns a value."""
    body, _ = _body(function)
    does = [
        statement
        for statement in body
        if not isinstance(statement, ast.Pass)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
    if not does or isinstance(does[-1], ast.Raise):
        return False
    return not any(
        isinstance(node, ast.Yield | ast.YieldFrom)
        or (isinstance(node, ast.Return) and node.value is not None)
        for node in _own_nodes(body)
    )


def _body(function: object) -> tuple[list[ast.stmt], int]:
    """The statements of a function and its first line; none where there is no source to read."""
    written = inspect.unwrap(function) if callable(function) else function
    if not isinstance(written, FunctionType):
        return [], 0
    try:
        lines, first = inspect.getsourcelines(written)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):  # no source, or a lambda in the middle of an expression
        return [], 0
    definition = tree.body[0]
    return (definition.body if isinstance(definition, ast.FunctionDef) else []), first


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All that is in these statements, but for what is in functions and classes defined there."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        yield node
        waiting += ast.iter_child_nodes(node)
