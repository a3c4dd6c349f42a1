"""Findings in the text of a module: statements that do nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

from typedqax._findings import Finding
from typedqax._installed import declaring, installed
from typedqax._materialization import materialization

_BLOCKS = {
    id(materialization): "the policy is in force",
    id(installed): "the table is installed",
    id(declaring): "handlers are declared together",
}
"""By what makes a block: what holds in the block, and nowhere else."""


def source_findings(module: ModuleType) -> Iterator[Finding]:
    """What a module says that has no effect; nothing, where its text is not to be had."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return
    for statement in ast.walk(tree):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            continue
        holds = _BLOCKS.get(id(_named(statement.value.func, module)))
        if holds is not None:
            call = ast.unparse(statement.value)
            yield Finding(
                module.__file__ or module.__name__,
                statement.lineno,
                "not-entered",
                f"`{call}` by itself does nothing: {holds} in a block, `with {call}:`",
                packages=frozenset({module.__name__.partition(".")[0]}),
            )


def _named(function: ast.expr, module: ModuleType) -> object:
    """What a name, or a dotted one, stands for in a module; None where that is not known there."""
    if isinstance(function, ast.Name):
        return module.__dict__.get(function.id)
    if isinstance(function, ast.Attribute):
        return getattr(_named(function.value, module), function.attr, None)
    return None
