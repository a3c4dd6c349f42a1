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


def returned(function: object) -> Iterator[tuple[ast.expr, int]]:
    """What a function returns, with its line, as far as its source is there to read."""
    written = inspect.unwrap(function) if callable(function) else function
    if not isinstance(written, FunctionType):
        return
    try:
        lines, first = inspect.getsourcelines(written)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):  # no source, or a lambda in the middle of an expression
        return
    waiting: list[ast.AST] = list(getattr(tree.body[0], "body", []))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Return) and node.value is not None:
            values = [node.value]
            while values:
                value = values.pop()
                if isinstance(value, ast.IfExp):
                    values += [value.body, value.orelse]
                else:
                    yield value, first + value.lineno - 1
        waiting += ast.iter_child_nodes(node)
