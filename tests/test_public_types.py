"""Types of the public names: few mention Any, each with its reason; and few ignores in the library.

All is read from the source, as a type checker reads it: of an overloaded function the overloads.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import typedqax

ROOT = Path(typedqax.__file__).resolve().parent
SOURCES = sorted(ROOT.rglob("*.py"))
MODULES = ("typedqax", "typedqax.ops", "typedqax.arrays", "typedqax.testing")
# What public functions give or take, though nobody writes the names.
GIVEN = {"Rule", "Finding", "Explanation", "Line", "Scope", "Step", "Which", "Choice", "Operand"}

ANY_OP = "operands, params and results of an op that is not known statically; the ops narrow them"
JSON = "what json.dumps takes"
PICKLE = "as object has it"

JUSTIFIED = {
    "AnyOp.bind": ANY_OP,
    "AnyOp.out_aval": ANY_OP,
    "AnyOp.__reduce__": PICKLE,
    "Explanation.__rich__": "rich is no dependency",
    "Explanation.to_dict": JSON,
    "GatherParams.fill_value": "a number of any kind, or None",
    "HandlerTable.__reduce__": PICKLE,
    "HandlerTable.views": "what other modules remember of a table, each under a key of its own",
    "ImplicitValue.__dataclass_fields__": "as dataclasses has it",
    "Which.bindings": "a size, or those of several axes",
    "Which.to_dict": JSON,
    "_generated._gather_params": "a number of any kind, or None",
    "_array.aux_field": "as dataclasses.field: one without a default goes with every annotation",
}
"""Why these mention Any."""


def public_names() -> set[str]:
    """The names of the classes and functions that public modules offer, and of their bases."""
    found = set(GIVEN)
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        for value in (getattr(module, name) for name in names):
            kind = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
            of = inspect.getmro(kind) if inspect.isclass(kind) else (kind,)
            found |= {each.__name__ for each in of if each.__module__.startswith("typedqax")}
    return found


def mentions_any(annotation: ast.expr) -> bool:
    """Whether `Any` stands in it, or an alias that is made of it."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    text = [n.value for n in ast.walk(annotation) if isinstance(n, ast.Constant)]
    quoted = any(isinstance(each, str) and re.search(r"\bAny\b", each) for each in text)
    return bool(names & ALIASES) or quoted


def _aliases() -> set[str]:
    found = {"Any"}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            is_alias = isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node)
            if is_alias and re.search(r"\bAny\b", ast.unparse(node)):
                found.add(ast.unparse(node).partition(":")[0])
    return found


ALIASES = _aliases()


def public_annotations() -> Iterator[tuple[str, ast.expr]]:
    """Every annotation of a public name: parameters, results and attributes."""
    names = public_names()
    for path in SOURCES:
        # The functions of the generated module are the signatures of ops.
        wanted = None if path.name == "_generated.py" else names
        yield from _in(ast.parse(path.read_text()).body, path.stem, wanted)


def _in(
    body: list[ast.stmt], owner: str, wanted: set[str] | None
) -> Iterator[tuple[str, ast.expr]]:
    """The annotations in a module or a class; `wanted` are the only names that count, if given."""
    functions = [each for each in body if isinstance(each, ast.FunctionDef)]
    overloaded = {each.name for each in functions if _is_overload(each)}
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _in(node.body, owner, wanted)
        elif isinstance(node, ast.ClassDef) and (wanted is None or node.name in wanted):
            yield from _in([each for each in node.body if not _is_hidden(each)], node.name, None)
        elif isinstance(node, ast.FunctionDef) and (wanted is None or node.name in wanted):
            if node.name not in overloaded or _is_overload(node):
                yield from _of_function(node, owner)
        elif isinstance(node, ast.AnnAssign) and wanted is None:
            yield f"{owner}.{ast.unparse(node.target)}", node.annotation


def _is_hidden(node: ast.stmt) -> bool:
    """Whether a member of a class is its own affair."""
    name = getattr(node, "name", "")
    if isinstance(node, ast.AnnAssign):
        name = ast.unparse(node.target)
    return name.startswith("_") and not name.endswith("__")


def _of_function(node: ast.FunctionDef, where: str) -> Iterator[tuple[str, ast.expr]]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in filter(None, [*every, arguments.vararg, arguments.kwarg]):
        if argument.annotation is not None and argument.arg not in ("self", "cls"):
            yield f"{where}.{node.name}", argument.annotation
    if node.returns is not None:
        yield f"{where}.{node.name}", node.returns


def _is_overload(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(each) == "overload" for each in node.decorator_list)


def test_less_than_a_twentieth_of_the_public_annotations_mention_any() -> None:
    found = [mentions_any(annotation) for _, annotation in public_annotations()]
    assert len(found) > 1000
    assert sum(found) / len(found) < 0.05


def test_each_public_annotation_that_mentions_any_has_a_reason() -> None:
    loose = {name for name, annotation in public_annotations() if mentions_any(annotation)}
    assert loose == set(JUSTIFIED)


@pytest.mark.parametrize(
    ("annotation", "mentions"),
    [
        pytest.param("Callable[P, Any]", True, id="inside"),
        pytest.param("Params", True, id="an alias that is made of it"),
        pytest.param("'list[Any]'", True, id="quoted"),
        pytest.param("AnyOp | Anything", False, id="in a longer name"),
    ],
)
def test_what_mentions_any(annotation: str, mentions: bool) -> None:
    assert mentions_any(ast.parse(annotation, mode="eval").body) == mentions


def ignores() -> dict[str, list[str]]:
    """The comments that silence mypy, by file."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.COMMENT and "type: ignore" in token.string:
                found.setdefault(path.name, []).append(token.string)
    return found


def test_the_library_silences_mypy_ten_times_at_most_each_with_code_and_reason() -> None:
    every = [comment for comments in ignores().values() for comment in comments]
    assert 0 < len(every) <= 10
    reasoned = re.compile(r"# type: ignore\[[a-z-]+\]  # \w.*")
    assert [comment for comment in every if not reasoned.fullmatch(comment)] == []
