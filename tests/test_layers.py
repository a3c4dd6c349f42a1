"""The order of the package's modules, and the one door to JAX's internals."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "typedqax"

# From the bottom to the top: a module imports only what stands above its own line here, whether
# at import time, inside a function or for type checking alone. CONTRIBUTING.md shows this list.
LAYERS = """
_errors
_jax
_collecting
_declined
_value
_closure
_polynomial
_dims
_dtypes
_signature
_mismatch
_ranks
_equations
_shapes
_relations
_meet
_domains
_hints
_annotations
_instantiation
_origin
_reason
_written
_fields
_aval
_primitives
_argument
_handler
_rule
_candidates
_comparison
_ranking
_unsettled
_table
_findings
_installed
_layout
_page
_flow
_materialization
_recording
_dispatch
_misses
_contracts
_run
_trace
_call
_leafwise
_entries
_stacks
_uniform
_higher_order._rewrite
_higher_order._dense
_higher_order._ruleless
_higher_order._carry
_higher_order._slices
_higher_order._staged
_higher_order.jit
_higher_order.while_loop
_higher_order.scan
_higher_order.cond
_higher_order.remat
_higher_order.remat_opt
_higher_order.custom_jvp
_higher_order.custom_vjp
_higher_order.custom_vmap
_higher_order.call
_higher_order.linear_call
_higher_order.linear_solve
_higher_order.shard_map
_higher_order.other
_higher_order
_scope
_transform
_primitive_rules
_construction
_shown
_members
_array
ops._any
ops._op
ops._generated
ops
ops._facts
ops._corpus
ops._generate
_declaring
_importing
_rule_findings
_class_findings
_inherited_findings
_source_findings
_check
_which
_dry_run
_lines
_run_page
_explain
_samples
_ways
_difference
_trials
testing
__main__
arrays._matrix
arrays.zeros
arrays.eye
arrays.lora
arrays.int8
arrays.masked
arrays
__init__
""".split()  # noqa: SIM905  # one a line, as CONTRIBUTING.md shows them

MODULES = sorted(PACKAGE.rglob("*.py"))
PROGRAMS = [*MODULES, *sorted((ROOT / "examples").rglob("*.py"))]


def name_of(path: Path) -> str:
    """How `LAYERS` calls the module: its dotted name inside typedqax."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


NAMES = {name_of(path) for path in MODULES}


def imports_of(tree: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """Every module of typedqax that is imported anywhere in `tree`, with its line."""

    def module(dotted: str) -> str:
        return dotted.removeprefix("typedqax").removeprefix(".") or "__init__"

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "typedqax":
                    yield node.lineno, module(alias.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "typedqax":
            source = module(node.module or "")
            for alias in node.names:
                inner = alias.name if source == "__init__" else f"{source}.{alias.name}"
                yield node.lineno, inner if inner in names else source
        elif isinstance(node, ast.Constant) and str(node.value).startswith("typedqax."):
            # import_module("typedqax._table") and its like.
            named = module(str(node.value))
            if named in names:
                yield node.lineno, named


def upward_imports(tree: ast.AST, name: str, layers: list[str], names: set[str]) -> list[str]:
    """What the module `name` imports that does not stand below it."""
    return [
        f"line {line}: {name} imports {other}"
        for line, other in imports_of(tree, names)
        if layers.index(other) >= layers.index(name)
    ]


def private_jax(tree: ast.Module) -> list[str]:
    """Where `tree` reaches for what JAX and jaxlib keep to themselves, or for JAX's version."""
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Attribute):
            found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [(node.lineno, node.value)] if node not in docstrings else []
    private = re.compile(r"\b_src\b|^jaxlib\b|^jax(\.version\b|\.__version)")
    return [f"line {line}: {text}" for line, text in found if private.search(text)]


def test_every_module_stands_in_the_list_of_layers() -> None:
    unknown = [where(path) for path in MODULES if name_of(path) not in LAYERS]
    assert not unknown, (
        f"in no layer: {', '.join(unknown)}. Add a line to LAYERS in tests/test_layers.py, below "
        "everything that the module imports, and the same line to CONTRIBUTING.md."
    )


def test_every_layer_is_a_module() -> None:
    assert [layer for layer in LAYERS if layer not in NAMES] == []


def test_the_list_of_layers_is_the_one_that_contributors_read() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.search(r"^```text layers\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert shown is not None, "CONTRIBUTING.md has no block ```text layers"
    assert re.sub(r"#.*", "", shown[1]).split() == LAYERS


@pytest.mark.parametrize("path", MODULES, ids=where)
def test_imports_point_down_so_that_there_are_no_cycles(path: Path) -> None:
    name = name_of(path)
    if name not in LAYERS:
        pytest.fail(f"{where(path)} is in no layer")
    tree = ast.parse(path.read_text())
    assert upward_imports(tree, name, [*LAYERS, *sorted(NAMES - set(LAYERS))], NAMES) == []


@pytest.mark.parametrize("path", [p for p in PROGRAMS if p.name != "_jax.py"], ids=where)
def test_only_one_module_touches_the_internals_of_jax(path: Path) -> None:
    assert private_jax(ast.parse(path.read_text())) == []


@pytest.mark.parametrize("path", PROGRAMS, ids=where)
def test_the_first_line_of_a_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = docstring.split("\n", maxsplit=1)[0]
    assert first.endswith((".", "`.")), f"{where(path)} starts with {first!r}"
    assert len(first.split()) > 2, f"{where(path)} starts with {first!r}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param("import typedqax._c", "line 1: _b imports _c", id="import"),
        pytest.param("import typedqax", "line 1: _b imports __init__", id="the package"),
        pytest.param(
            "from typedqax import _c as c", "line 1: _b imports _c", id="from the package"
        ),
        pytest.param("from typedqax import Name", "line 1: _b imports __init__", id="public name"),
        pytest.param("from typedqax._c import f", "line 1: _b imports _c", id="from a module"),
        pytest.param("from typedqax.ops import _op", "line 1: _b imports ops._op", id="inner"),
        pytest.param("from typedqax.ops import add", "line 1: _b imports ops", id="inner name"),
        pytest.param("def f():\n    import typedqax._c", "line 2: _b imports _c", id="deferred"),
        pytest.param(
            "if TYPE_CHECKING:\n    from typedqax._c import C", "line 2: _b imports _c", id="typing"
        ),
        pytest.param("import_module('typedqax._c')", "line 1: _b imports _c", id="by name"),
        pytest.param("import typedqax._b", "line 1: _b imports _b", id="itself"),
    ],
)
def test_every_form_of_upward_import_is_seen(source: str, line: str) -> None:
    names = {"_a", "_b", "_c", "ops", "ops._op", "__init__"}
    layers = ["_a", "_b", "_c", "ops._op", "ops", "__init__"]
    assert upward_imports(ast.parse(source), "_b", layers, names) == [line]
    assert upward_imports(ast.parse("from typedqax._a import f"), "_b", layers, names) == []


@pytest.mark.parametrize(
    "source",
    [
        "import jax._src.core",
        "from jax._src import core",
        "from jax import _src",
        "jax._src.core.Trace",
        "getattr(jax, '_src')",
        "import_module('jax._src.core')",
        "import jaxlib",
        "from jaxlib._jax import pytree",
        "jax.__version__",
        "from jax.version import __version__",
    ],
)
def test_every_way_to_the_internals_of_jax_is_seen(source: str) -> None:
    assert len(private_jax(ast.parse(source))) >= 1


@pytest.mark.parametrize(
    "source", ['"""Not `jax._src`."""', "import jax.extend.core", "jax.numpy.sin", "x.src", "'jax'"]
)
def test_what_jax_offers_publicly_is_no_internal(source: str) -> None:
    assert private_jax(ast.parse(source)) == []
