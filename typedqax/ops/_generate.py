"""The generator of `_generated.py`: run `python -m typedqax.ops._generate` after JAX changes.

It reads the installed JAX as text: what `jax.extend.core.primitives` exports, and every place where
JAX itself writes `some_p.bind(x, y, name=value)`. Types come from the corpus (`_corpus.json`) and
from `_facts.py`. With `--check` nothing is written: the exit status says whether the file would
change.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.metadata
import importlib.util
import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from typedqax import _jax
from typedqax.ops import _facts

_HERE: Final = Path(__file__).parent
GENERATED: Final = _HERE / "_generated.py"
CORPUS: Final = _HERE / "_corpus.json"
_PUBLIC: Final = "jax.extend.core.primitives"

Home: TypeAlias = tuple[str, str]
"""The module that a primitive is made in, and its name there."""


class Call(NamedTuple):
    """One `some_p.bind(...)` in JAX's source.

    Attributes:
        operands: one character each: `x`, or `*` for a starred one.
        keywords: the names of params that are written out.
        whole: whether they are all (there is no `**params`).
    """

    operands: str
    keywords: frozenset[str]
    whole: bool


class Source:
    """JAX's source text, with names followed through its imports."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("jax")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(
                "The generator reads the source of jax, which is not installed."
            )
        self._root = Path(spec.origin).parent
        self._trees: dict[str, ast.Module] = {}
        self._imports: dict[str, dict[str, tuple[str, str | None]]] = {}
        self._defined: dict[str, set[str]] = {}
        for path in sorted(self._root.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"\w_p\b", text) and "pallas" not in path.parts:
                self._read(self._module(path), ast.parse(text))

    def _module(self, path: Path) -> str:
        parts = path.relative_to(self._root.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _read(self, module: str, tree: ast.Module) -> None:
        imports: dict[str, tuple[str, str | None]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    imports[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    imports[name] = (alias.name if alias.asname else name, None)
        self._trees[module] = tree
        self._imports[module] = imports
        self._defined[module] = {
            name.id
            for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }

    def home(self, module: str, name: str) -> Home | None:
        """Where what `module` calls `name` is really made."""
        while module in self._imports:
            if name in self._defined[module]:
                return module, name
            base, inner = self._imports[module].get(name, (module, None))
            if inner is None:
                return None
            module, name = base, inner
        return None

    def _module_meant(self, module: str, expression: ast.expr) -> str | None:
        if isinstance(expression, ast.Name) and expression.id in self._imports[module]:
            base, inner = self._imports[module][expression.id]
            return base if inner is None else f"{base}.{inner}"
        if isinstance(expression, ast.Attribute):
            outer = self._module_meant(module, expression.value)
            return outer and f"{outer}.{expression.attr}"
        return None

    def public(self) -> dict[str, Home]:
        """The primitives that JAX exports, by name (`add_p`)."""
        found = {}
        for name in self._imports[_PUBLIC]:
            if name.endswith("_p"):
                home = self.home(_PUBLIC, name)
                if home is None:
                    raise LookupError(f"{_PUBLIC}.{name} is not made where it seems to be.")
                found[name] = home
        return found

    def private(self, path: str) -> Home:
        """The home of a primitive that JAX keeps to itself, at a path such as `lax.lax.split_p`."""
        tail, _, name = path.rpartition(".")
        for module, names in self._defined.items():
            # Below the one package of jax that is not public.
            if name in names and module.split(".")[2:] == tail.split("."):
                return module, name
        raise LookupError(f"JAX has no primitive at {path} any more: see _facts.NOT_PUBLIC.")

    @cached_property
    def calls(self) -> Mapping[Home, list[Call]]:
        """Every bind of every primitive."""
        found: dict[Home, list[Call]] = {}
        for module, tree in self._trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    home = self._bound(module, node.func)
                    if home is not None:
                        found.setdefault(home, []).append(_call(node))
        return found

    def _bound(self, module: str, function: ast.Attribute) -> Home | None:
        if function.attr != "bind":
            return None
        match function.value:
            case ast.Name(id=name):
                return self.home(module, name)
            case ast.Attribute(value=outer, attr=name):
                inner = self._module_meant(module, outer)
                return None if inner is None else self.home(inner, name)
        return None


def _call(node: ast.Call) -> Call:
    operands = "".join("*" if isinstance(arg, ast.Starred) else "x" for arg in node.args)
    names = [keyword_.arg for keyword_ in node.keywords]
    return Call(operands, frozenset(name for name in names if name), None not in names)


@dataclass(frozen=True, slots=True)
class Entry:
    """What the generated file says of one primitive.

    Attributes:
        attribute: its name in `typedqax.ops`.
        name: its own name.
        path: where it is kept, if that is not told by the attribute.
        operands: how many it takes; None: it varies.
        leading: of a varying number, how many come first by themselves.
        multiple: whether it gives a list.
        params: the type of each, as handlers are given it.
        bind: the same as `bind` takes them.
        extra: params that only the TypedDict has, and need not have.
    """

    attribute: str
    name: str
    path: str | None
    operands: int | None
    leading: int
    multiple: bool
    params: Mapping[str, str]
    bind: Mapping[str, str]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> str:
        """The attribute, or with an underscore where that is a keyword."""
        return f"{self.attribute}_" if keyword.iskeyword(self.attribute) else self.attribute

    @property
    def has_alias(self) -> bool:
        """Whether its own name is another one that can be written."""
        return self.name.isidentifier() and self.name != self.attribute

    @property
    def params_class(self) -> str:
        """The name of the TypedDict."""
        return "".join(part.capitalize() for part in self.attribute.split("_")) + "Params"

    @property
    def kind(self) -> str:
        """The class of the op."""
        if self.attribute in _facts.HIGHER_ORDER:
            return "HigherOrderOp"
        count = {0: "Nullary", 1: "Unary", 2: "Binary", 3: "Ternary", 4: "Quaternary"}
        number = "Variadic" if self.operands is None else count[self.operands]
        return f"{'Multi' if self.multiple else ''}{number}Op"


@cache
def entries() -> list[Entry]:
    """One for each primitive, in alphabetical order.

    Raises:
        LookupError: the corpus is of another JAX than the one installed.
    """
    recorded = json.loads(CORPUS.read_text())
    installed = importlib.metadata.version("jax")
    if recorded["jax"] != installed:
        raise LookupError(
            f"{CORPUS.name} is of JAX {recorded['jax']}, and {installed} is installed. Ops are "
            f"generated from the newest JAX: install {recorded['jax']} for the same again; for "
            "newer ones run python -m typedqax.ops._corpus first."
        )
    source = Source()
    corpus = recorded["primitives"]
    homes: dict[str, tuple[Home, str | None]] = {
        public.removesuffix("_p"): (home, None) for public, home in source.public().items()
    }
    for attribute, path in _facts.NOT_PUBLIC.items():
        homes[attribute] = (source.private(path), path)
    found = []
    for attribute, (home, kept) in sorted(homes.items()):
        primitive = _jax.primitive_at(kept or f"{attribute}_p")
        seen = corpus.get(primitive.name, {"operands": [], "params": {}})
        calls = source.calls.get(home, [])
        operands, leading = _operands(attribute, calls, seen["operands"])
        params = _params(attribute, calls, seen["params"])
        untyped = _facts.UNTYPED.get(attribute, frozenset())
        sometimes = _facts.SOMETIMES.get(attribute, {})
        found.append(
            Entry(
                attribute=attribute,
                name=primitive.name,
                path=kept,
                operands=operands,
                leading=leading,
                multiple=primitive.multiple_results,
                params={p: t for p, t in params.items() if p not in untyped},
                bind=params | _facts.BIND_TYPES.get(attribute, {}),
                extra={p: t for p, t in params.items() if p in untyped} | sometimes,
            )
        )
    return found


def _operands(attribute: str, calls: list[Call], seen: list[int]) -> tuple[int | None, int]:
    patterns = {call.operands for call in calls}
    fixed = {len(pattern) for pattern in patterns if "*" not in pattern}
    leading = min((len(pattern.partition("*")[0]) for pattern in patterns), default=0)
    if attribute in _facts.HIGHER_ORDER or attribute in _facts.VARIADIC:
        return None, leading
    if len(fixed) == 1 and (seen == list(fixed) or not any("*" in p for p in patterns)):
        (count,) = fixed
        return (count, 0) if count <= 4 else (None, count)
    return None, leading


def _params(attribute: str, calls: list[Call], seen: Mapping[str, list[str]]) -> dict[str, str]:
    if attribute in _facts.EQUATION_PARAMS:
        return dict(sorted(_facts.EQUATION_PARAMS[attribute].items()))
    whole = [call.keywords for call in calls if call.whole]
    names = frozenset().union(*whole)
    own = _facts.OP_TYPES.get(attribute, {})
    return {
        name: own.get(name) or _facts.TYPES.get(name) or corpus_type(seen.get(name, []))
        for name in sorted(names)
    }


def corpus_type(kinds: list[str]) -> str:
    """The type of values that were described so; object where that cannot be written."""
    members = {_written(ast.parse(kind, mode="eval").body) for kind in kinds}
    if "tuple[()]" in members and len(members) > 1:
        members.remove("tuple[()]")
    if not members or any(_UNKNOWN in member for member in members):
        return "object"
    return " | ".join(sorted(members, key=lambda member: (member == "None", member)))


_UNKNOWN: Final = "?"
# JAX's `TypedInt` is an int; numpy's comes through where a caller computed an axis by numpy.
_PLAIN: Final = {"TypedInt": "int", "int64": "int", "np.dtype": "np.dtype"} | {
    name: name for name in ("bool", "float", "int", "str", "None")
}


def _written(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, right=right):
            return " | ".join(sorted({_written(left), _written(right)}))
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[])):
            return "tuple[()]"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[item, _])):
            return f"tuple[{_written(item)}, ...]"
    return _PLAIN.get(ast.unparse(node), _UNKNOWN)


# --- the text ------------------------------------------------------------------------------------

_HEAD: Final = '''"""One typed object for each primitive of JAX {version}.

Written by `python -m typedqax.ops._generate`; do not edit.
"""

# Annotations are evaluated here: as strings, TypedDict would compile each of them, and importing
# this module would take twice as long.
from collections.abc import Callable, Hashable
from typing import Any, Final, NotRequired, TypedDict

import jax
import numpy as np
from jax import Array, lax
from jax.core import ShapedArray
from jax.experimental.layout import Layout
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive
from jax.tree_util import PyTreeDef
from jax.typing import ArrayLike
from typing_extensions import Never

from typedqax.ops._op import {classes}

'''


def text() -> str:
    """The generated module."""
    found = entries()
    missing = [entry.attribute for entry in found if entry.attribute not in _facts.DOCS]
    if missing:
        raise LookupError(f"Primitives without a line of doc in _facts.DOCS: {missing}.")
    signatures = _Signatures()
    body = "".join(_op(entry, signatures) for entry in found)
    classes = ", ".join(sorted({entry.kind for entry in found}))
    version = importlib.metadata.version("jax")
    typed = [entry for entry in found if entry.params or entry.extra]
    aliases = {entry.name: entry.identifier for entry in found if entry.has_alias}
    names = [entry.identifier for entry in found] + [entry.params_class for entry in typed]
    names += aliases
    return _formatted(
        _HEAD.format(version=version, classes=classes)
        + f"__all__ = {sorted(names)!r}\n\n"
        + f'JAX_VERSION: Final = "{version}"\n\n'
        + "".join(map(_typed_dict, typed))
        + signatures.text()
        + body
        + "# What a jaxpr calls them.\n"
        + "".join(f"{alias}: Final = {name}\n" for alias, name in aliases.items())
    )


class _Signatures:
    """The functions that params are typed by; equal ones are one, so that ops can be grouped."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, wanted: str, parameters: str) -> str:
        return self._names.setdefault(parameters, f"_{wanted}")

    def text(self) -> str:
        return "".join(
            f"def {name}({parameters}) -> None: ...\n" for parameters, name in self._names.items()
        )


def _typed_dict(entry: Entry) -> str:
    required = "".join(f"    {name}: {type_}\n" for name, type_ in entry.params.items())
    extra = "".join(f"    {name}: NotRequired[{type_}]\n" for name, type_ in entry.extra.items())
    doc = f'    """The params of `ops.{entry.identifier}`."""\n\n'
    return f"class {entry.params_class}(TypedDict):\n{doc}{required}{extra}\n\n"


def _op(entry: Entry, signatures: _Signatures) -> str:
    params = [f"{name}: {type_}" for name, type_ in entry.params.items()]
    bound = [
        f"{name}: {type_}{' = None' if type_.endswith('None') else ''}"
        for name, type_ in entry.bind.items()
    ]
    given = {"params": _keywords(params), "bind": _keywords(bound)}
    if entry.operands == 0:
        del given["params"]
    elif entry.operands is None:
        # An op that implicit arrays reach has at least one operand.
        handler = [*_positional(max(entry.leading, 1), "Never"), *params]
        bind = [*_positional(entry.leading, "ArrayLike"), *bound]
        given = {"params": given["params"], "handler": handler, "bind": bind}
    arguments = [repr(entry.name)]
    for suffix, parameters in given.items():
        arguments.append(signatures.name(f"{entry.attribute}_{suffix}", ", ".join(parameters)))
    arguments.append(f"doc={_facts.DOCS[entry.attribute]!r}")
    if entry.identifier != entry.name:
        arguments.append(f"attribute={entry.identifier!r}")
    if entry.path is not None:
        arguments.append(f"path={entry.path!r}")
    doc = f'"""{_facts.DOCS[entry.attribute]}"""'
    return f"{entry.identifier}: Final = {entry.kind}({', '.join(arguments)})\n{doc}\n\n"


def _keywords(parameters: list[str]) -> list[str]:
    return ["*", *parameters] if parameters else []


def _positional(leading: int, type_: str) -> list[str]:
    first = [f"{letter}: {type_}" for letter in "xyzwvu"[:leading]]
    return [*first, "/", f"*operands: {type_}"] if first else [f"*operands: {type_}"]


def _formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "100", "-"]
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ruff could not format what was generated: {done.stderr}")
    return done.stdout


def difference() -> Iterator[str]:
    """What regenerating would change in the committed file, as a diff."""
    committed = GENERATED.read_text() if GENERATED.exists() else ""
    yield from difflib.unified_diff(
        committed.splitlines(keepends=True),
        text().splitlines(keepends=True),
        "committed",
        "regenerated",
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or say how it differs."""
    parser = argparse.ArgumentParser(prog="python -m typedqax.ops._generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; print a diff")
    if parser.parse_args(arguments).check:
        changes = "".join(difference())
        sys.stdout.write(changes)
        return int(bool(changes))
    GENERATED.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
