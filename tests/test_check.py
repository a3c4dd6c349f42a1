"""The check of whole programs: every kind of finding, the command, and what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import typedqax as tq
from typedqax import __main__ as command
from typedqax._check import Checked, check_packages
from typedqax._findings import CODES, Finding
from typedqax._importing import WrongUsageError
from typedqax._installed import installed_table, nothing_installed

Check = Callable[..., list[Finding]]

HEAD = """\
from __future__ import annotations
from typing import Any
from jax import Array
from jaxtyping import Float
import typedqax as tq
from typedqax import ops

class Low(tq.ImplicitArray):
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    def materialize(self) -> Float[Array, "m n"]:
        return self.a @ self.b.T

"""


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    before = set(sys.modules)
    with nothing_installed():
        yield
    for name in set(sys.modules) - before:
        if name.startswith("sample"):
            del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a package's files; a file's text follows the head that all have."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def write(name: str, **files: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file, text in {"__init__": "", **files}.items():
            folder.joinpath(f"{file}.py").write_text(text)
        return folder

    return write


def lines_of(checked: Checked) -> list[str]:
    return command.report(checked).splitlines()


def only(package: Callable[..., Path], name: str, body: str) -> tuple[Finding, str]:
    """The one finding about a package of one module, and the line of the module it is at."""
    package(name, rules=HEAD + body)
    checked = check_packages(name)
    assert [each.code for each in checked.findings] == [checked.findings[0].code]
    (finding,) = checked.findings
    assert Path(finding.file).name == "rules.py"
    return finding, (HEAD + body).splitlines()[finding.line - 1].strip()


# --- each kind of finding ------------------------------------------------------------------------

HANDLERS = {
    "bad shape, of jaxtyping": (
        'def bad(x: Float[Low, "... m ..."], /) -> Array: ...\nT = ops.sin.to(bad)\n',
        "shape",
        "def bad(",
        (
            "`bad`: the annotation of `x`, \"Float[Low, '... m ...']\", has no value (ValueError: "
            "Cannot use variadic specifiers (`*name` or `...`) more than once.)"
        ),
    ),
    "bad shape, of ours": (
        'def bad(x: Float[Low, "m n ++"], /) -> Array: ...\nT = ops.sin.to(bad)\n',
        "shape",
        "def bad(",
        (
            "`bad`: parameter 'x': the axis '++' in 'm n ++' cannot be read: it is neither a name, "
            "a number nor an expression; separate axes by spaces, each a name, a number, `_`, "
            "`...`, `*name`, `#name` or an expression without spaces such as `n+1`"
        ),
    ),
    "bad shape of the result": (
        'def bad(x: Low, /) -> Float[Array, "n )"]: ...\nT = ops.sin.to(bad)\n',
        "shape",
        "def bad(",
        "`bad`: the result Float[Array, \"n )\"]: the axis ')' in 'n )' cannot be read",
    ),
    "unbound axis of the result": (
        'def bad(x: Float[Low, "m n"], /) -> Float[Low, "m k"]: ...\nT = ops.sin.to(bad)\n',
        "unbound-axis",
        "def bad(",
        (
            "`bad`: the axis 'k' of the result Float[Low, \"m k\"] is in no operand: misspelt, or "
            "write `_` (`...` for any number of axes)"
        ),
    ),
    "unbound axis in an expression": (
        'def bad(x: Float[Low, "m n+1"], /) -> Array: ...\nT = ops.sin.to(bad)\n',
        "unbound-axis",
        "def bad(",
        "`bad`: parameter 'x': the axis 'n+1' needs 'n', which is not bound by a plain axis",
    ),
    "annotation only for type checkers": (
        (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n"
            "    from elsewhere import Other\n"
            "def bad(x: Low, y: Other, /) -> Array: ...\nT = ops.sub.to(bad)\n"
        ),
        "annotation",
        "def bad(",
        (
            "`bad`: the annotation of `y`, 'Other', has no value (NameError: name 'Other' is not "
            "defined); what an annotation names must be imported at run time, not under "
            "TYPE_CHECKING"
        ),
    ),
    "operand that is no array": (
        "def bad(x: Low, y: str, /) -> Array: ...\nT = ops.sub.to(bad)\n",
        "annotation",
        "def bad(",
        "`bad`: parameter 'y': str is not a dispatch class; annotate jax.Array, a subclass",
    ),
    "result that is no array": (
        "def bad(x: Low, /) -> str: ...\nT = ops.sin.to(bad)\n",
        "annotation",
        "def bad(",
        "`bad`: the result str: str is not a dispatch class",
    ),
    "result that is None": (
        "def bad(x: Low, /) -> None: ...\nT = ops.sin.to(bad)\n",
        "result",
        "def bad(",
        (
            "`bad`: the result None: a handler gives an array, never None; to decline a call, "
            "return DECLINE and annotate `| Declined`"
        ),
    ),
    "several results where there is one": (
        "def bad(x: Low, /) -> tuple[Array, Array]: ...\nT = ops.sin.to(bad)\n",
        "result",
        "def bad(",
        "`bad`: it gives several arrays, tuple[Array, Array]; `sin` has one result",
    ),
    "one result where there are several": (
        "def bad(x: Low, /, **params: Any) -> Array: ...\nT = ops.top_k.to(bad)\n",
        "result",
        "def bad(",
        "`bad`: it gives one array, Array; `top_k` has several results: give a tuple",
    ),
    "too few operands": (
        "def bad(x: Low, /) -> Array: ...\nT = ops.sub.to(bad)\n",
        "arity",
        "def bad(",
        "`bad`: it takes 1 operand, but `sub` has 2",
    ),
    "swallowed param": (
        "def bad(x: Low, /, **_: Any) -> Array: ...\nT = ops.transpose.to(bad)\n",
        "ignored-param",
        "def bad(",
        (
            "`bad`: it ignores `permutation` of `transpose`, which decides the numbers that come "
            "out: name it as a keyword, or take **params and pass them on"
        ),
    ),
    "operand called as a param": (
        "def bad(permutation: Low, **params: Any) -> Array: ...\nT = ops.transpose.to(bad)\n",
        "operand-name",
        "def bad(",
        (
            "`bad`: its operand `permutation` has the name of a param of `transpose`: put a `/` "
            "after the operands"
        ),
    ),
    "unknown param, required": (
        "def bad(x: Low, /, *, permutatoin: Any) -> Array: ...\nT = ops.transpose.to(bad)\n",
        "unknown-param",
        "def bad(",
        (
            "`bad`: `transpose` has no param `permutatoin` on this JAX (it has: permutation); "
            "misspelt, or give it a default"
        ),
    ),
    "unknown param, with a default": (
        (
            "def bad(x: Low, /, *, permutatoin: Any = (1, 0), **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.transpose.to(bad))\n'
        ),
        "unknown-param",
        "def bad(",
        "`bad` names the param `permutatoin`, which `transpose` never gives; misspelt?",
    ),
    "both orders of what has one": (
        "def bad(x: Low, y: Array, /) -> Array: ...\nT = ops.sub.to(bad, commutative=True)\n",
        "commutative",
        "def bad(",
        (
            "`bad`: commutative=True is for add, add_any, and, eq, max, min, mul, ne, or, xor; the "
            "operands of `sub` have an order"
        ),
    ),
    "a precedence that is text": (
        'def bad(x: Low, /) -> Low: ...\nT = ops.neg.to(bad, precedence="high")\n',
        "precedence",
        "def bad(",
        "`bad`: precedence='high': it is a whole number, the higher wins",
    ),
    "no call can reach it": (
        "def bad(x: Array, /) -> Array: ...\nT = ops.sin.to(bad)\n",
        "unreachable",
        "def bad(",
        "`bad`: no call of `sin` can reach it: (x: Array) admits no operands",
    ),
    "what is no function": (
        "T = ops.sin.to(Low)\n",
        "handler",
        "T = ops.sin.to(Low)",
        "`Low`: a handler is a plain function of the primitive's operands",
    ),
    "what is no rule": (
        "def bad(x: Low, /) -> Array: ...\nT = tq.HandlerTable('t',\n    bad)\n",
        "table",
        "T = tq.HandlerTable('t',",
        (
            "table 't' is made of rules and tables; 'bad' is neither. Say what it handles: "
            "ops.<primitive>.to(bad)"
        ),
    ),
    "table without a name": (
        "def fine(x: Low, /) -> Array: ...\nT = tq.HandlerTable(ops.sin.to(fine))\n",
        "table",
        "T = tq.HandlerTable(",
        "the first argument of HandlerTable is its name, a string; got Rule",
    ),
    "list of rules": (
        "def fine(x: Low, /) -> Array: ...\nT = tq.HandlerTable('t', [ops.sin.to(fine)])\n",
        "table",
        "T = tq.HandlerTable(",
        "got a list of 1. Unpack it: HandlerTable('t', *rules)",
    ),
    "what is no table": (
        "def fine(x: Low, /) -> Array: ...\ntq.install(ops.sin.to(fine))\n",
        "table",
        "tq.install(",
        "install takes a HandlerTable; got Rule",
    ),
    "table that is not installed": (
        'tq.uninstall(tq.HandlerTable("t"))\n',
        "table",
        "tq.uninstall(",
        "table 't' is not installed; installed are: none",
    ),
    "ambiguous": (
        (
            'def left(x: Low, y: Float[Array, "n"], /, **params: Any) -> Array: ...\n'
            'def right(x: Float[Low, "n"], y: Array, /, **params: Any) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.sub.to(left), ops.sub.to(right))\n'
        ),
        "ambiguous",
        "def right(",
        "as in sub(Low ",
    ),
    "duplicate": (
        (
            "def one(x: Low, /, **params: Any) -> Array: ...\n"
            "def two(x: Low, /, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.sin.to(one), ops.sin.to(two))\n'
        ),
        "duplicate",
        "def two(",
        "same operands as one",
    ),
    "declared twice under one name": (
        (
            "def same(x: Low, /, **params: Any) -> Array: ...\n"
            'tq.install(tq.HandlerTable("t", ops.sin.to(same)))\n'
            "def same(x: Low, /, **params: Any) -> Array: ...\n"
            'tq.install(tq.HandlerTable("u", ops.sin.to(same)))\n'
        ),
        "duplicate",
        "def same(",
        "same operands as same",
    ),
    "refused when installed": (
        (
            "def one(x: Low, /, **params: Any) -> Array: ...\n"
            "def two(x: Low, /, **params: Any) -> Array: ...\n"
            'tq.install(tq.HandlerTable("t", ops.sin.to(one)))\n'
            'tq.install(tq.HandlerTable("u", ops.sin.to(two)))\n'
        ),
        "duplicate",
        "def two(",
        "same operands as one",
    ),
    "decorated": (
        (
            '@tq.primitive_handler("sine")\n'
            "def bad(primitive: Any, x: Low, /, **params: Any) -> Array: ...\n"
        ),
        "unknown-primitive",
        '@tq.primitive_handler("sine")',
        "`bad`: JAX has no primitive 'sine'; did you mean 'sin'",
    ),
    "decorated, with what is no primitive": (
        (
            "@tq.primitive_handler(3)\n"
            "def bad(primitive: Any, x: Low, /, **params: Any) -> Array: ...\n"
        ),
        "unknown-primitive",
        "@tq.primitive_handler(3)",
        "`bad`: 3 is no primitive: give a name, a primitive of JAX, an op, or several",
    ),
    "unreachable": (
        (
            "def general(x: Low, /, **params: Any) -> Array: ...\n"
            'def never(x: Float[Low, "n n"], /, **params: Any) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.cos.to(general, precedence=1), ops.cos.to(never))\n'
        ),
        "unreachable",
        "def never(",
        "`never` never runs for `cos`: every call that it takes is taken by `general`",
    ),
    "one-sided": (
        (
            "class Small(Low): ...\n"
            "def general(x: Low, y: Low, /, **params: Any) -> Array: ...\n"
            "def special(x: Low, y: Small, /, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.sub.to(general), ops.sub.to(special))\n'
        ),
        "one-sided",
        "def special(",
        "`special` has no counterpart for the other order: sub(Small ",
    ),
    "undeclared decline": (
        (
            "def bad(x: Low, /, **params: Any) -> Array:\n"
            "    return x.materialize() if params else tq.DECLINE\n"
            'T = tq.HandlerTable("t", ops.sin.to(bad))\n'
        ),
        "undeclared-decline",
        "return x.materialize()",
        (
            "`bad` returns tq.DECLINE, which its return annotation Array does not have: "
            "add `| Declined`"
        ),
    ),
    "nothing but declines": (
        (
            "def bad(x: Low, /, **params: Any) -> Array | tq.Declined:\n"
            "    if params:\n"
            "        return tq.DECLINE\n"
            "    return NotImplemented\n"
            'T = tq.HandlerTable("t", ops.sin.to(bad))\n'
        ),
        "always-declines",
        "def bad(",
        "`bad` declines every call: it returns nothing but tq.DECLINE and NotImplemented",
    ),
    "annotated as nothing but a decline": (
        (
            "def bad(x: Low, /, **params: Any) -> tq.Declined: ...\n"
            'T = tq.HandlerTable("t", ops.sin.to(bad))\n'
        ),
        "always-declines",
        "def bad(",
        "`bad` declines every call: it is annotated Declined alone",
    ),
    "param that every call has": (
        (
            "def bad(x: Low, y: Array, /) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.dot_general.to(bad))\n'
        ),
        "always-declines",
        "def bad(",
        (
            "`bad` declines every call of `dot_general`, which always has the param "
            "`dimension_numbers`: name it, or take **params"
        ),
    ),
    "param that is declined when it is there": (
        (
            "def bad(x: Low, y: Array, /, *, dimension_numbers: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.dot_general.to(bad))\n'
        ),
        "declined-param",
        "def bad(",
        (
            "`bad` declines every call of `dot_general` in which one of `precision`, "
            "`preferred_element_type` is not None; name it, or take **params"
        ),
    ),
    "class that joins two kinds": (
        (
            "class Other(tq.ImplicitArray):\n"
            '    x: Float[tq.ArrayValue, "n"]\n'
            "    def materialize(self) -> Array:\n"
            "        return self.x\n"
            "def one(x: Low, /, **params: Any) -> Array: ...\n"
            "def two(x: Other, /, **params: Any) -> Array: ...\n"
            'tq.install(tq.HandlerTable("t", ops.sin.to(one), ops.sin.to(two)))\n'
            "class Both(Low, Other): ...\n"
        ),
        "ambiguous",
        "def two(",
        "as in sin(Both ",
    ),
}


@pytest.mark.parametrize(("body", "code", "line", "text"), HANDLERS.values(), ids=HANDLERS.keys())
def test_what_is_wrong_with_handlers_is_found_at_its_line(
    package: Callable[..., Path], body: str, code: str, line: str, text: str
) -> None:
    finding, at = only(package, f"sample_{code.replace('-', '_')}_{abs(hash(body))}", body)
    assert finding.code == code
    assert at.startswith(line)
    assert text in finding.text
    assert code in CODES
    assert finding.severity == ("note" if code == "declined-param" else "error")


CLASSES = {
    "bad shape in a field": (
        '    x: Float[tq.ArrayValue, "... m ..."]\n    def materialize(self) -> Array: ...\n',
        "field",
        "x: Float",
        (
            "`Bad.x`: the annotation \"Float[tq.ArrayValue, '... m ...']\" has no value "
            "(ValueError: Cannot use variadic specifiers"
        ),
    ),
    "axis in a field that cannot be read": (
        '    x: Float[tq.ArrayValue, "m ++"]\n    def materialize(self) -> Array: ...\n',
        "field",
        "x: Float",
        "`Bad.x`: the axis '++' in 'm ++' cannot be read: it is neither a name, a number nor",
    ),
    "name that does not exist": (
        (
            "    x: Float[tq.ArrayValue, 'm']\n"
            "    y: Flaot[tq.ArrayValue, 'm']\n"
            "    def materialize(self) -> Array: ...\n"
        ),
        "field",
        "y: Flaot",
        (
            "`Bad.y`: an annotation names 'Flaot', which does not exist there; import it (not only "
            "under TYPE_CHECKING), or define it before the class is first used"
        ),
    ),
    "text that is no auxiliary data": (
        (
            "    x: Float[tq.ArrayValue, 'm']\n"
            "    name: str\n"
            "    def materialize(self) -> Array:\n"
            "        return self.x\n"
        ),
        "field",
        "name: str",
        (
            "`Bad.name`: str is no array, and a field is a leaf of the pytree: keep it as "
            "auxiliary data, name: str = aux_field()"
        ),
    ),
    "function that is no auxiliary data": (
        (
            "    x: Float[tq.ArrayValue, 'm']\n"
            "    f: type[int]\n"
            "    def materialize(self) -> Array:\n"
            "        return self.x\n"
        ),
        "field",
        "f: type",
        "keep it as auxiliary data, f: type[int] = aux_field()",
    ),
    "member that is hidden": (
        (
            '    T: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array:\n"
            "        return self.T\n"
        ),
        "field",
        "T: Float",
        "`Bad.T`: it would hide the member of arrays that has this name; rename the field",
    ),
    "fields in an order without a constructor": (
        (
            '    x: Float[tq.ArrayValue, "m n"] = None\n'
            '    y: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array:\n"
            "        return self.x\n"
        ),
        "field",
        "class Bad",
        "the fields of `Bad`: non-default argument 'y' follows default argument",
    ),
    "an array as a default": (
        (
            "    import numpy as np\n"
            '    x: Float[tq.ArrayValue, "m"] = np.zeros(3)\n'
            "    def materialize(self) -> Array: ...\n"
        ),
        "field",
        "class Bad",
        "the fields of `Bad`: mutable default",
    ),
    "axes that never agree": (
        (
            '    x: Float[tq.ArrayValue, "m-n"]\n'
            '    y: Float[tq.ArrayValue, "n-m-1"]\n'
            '    z: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array: ...\n"
        ),
        "field",
        "class Bad",
        "the axes of the fields of `Bad` never agree: no sizes fit x: Float",
    ),
    "axis of materialize that no field has": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            '    def materialize(self) -> Float[Array, "m k"]:\n'
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        (
            "`Bad.materialize`: the axis 'k' of its result Float[Array, \"m k\"] is in no field: "
            "misspelt, or write `_` (`...` for any number of axes)"
        ),
    ),
    "axes of materialize exchanged": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            '    def materialize(self) -> Float[Array, "n m"]:\n'
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        (
            "`Bad.materialize` gives Array f32[2,3] for x=Array f32[2,3], and is annotated "
            'Float[Array, "n m"]: '
        ),
    ),
    "materialize that declines": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array | tq.Declined:\n"
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        (
            "`Bad.materialize` returns one array, and never declines; it is annotated "
            "Array | Declined"
        ),
    ),
    "materialize annotated with what is no array": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            '    def materialize(self) -> Float[Array, "... n ..."]:\n'
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        "its return annotation: ValueError: Cannot use variadic",
    ),
    "materialize that gives nothing": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array:\n"
            "        self.x + 1\n"
        ),
        "materialize",
        "def materialize",
        "`Bad.materialize` gives NoneType for x=Array f32[2,3]; it is to give one array",
    ),
    "materialize that misspells a field": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array:\n"
            "        y = self.xx\n"
            "        return y\n"
        ),
        "materialize",
        "y = self.xx",
        "`Bad.materialize` raises AttributeError: 'Bad' object has no attribute 'xx'",
    ),
    "materialize with a name that does not exist": (
        (
            "    x: tq.ArrayValue\n"
            "    def materialize(self) -> Array:\n"
            "        return jnp.sin(self.x)\n"
        ),
        "materialize",
        "return jnp.sin(self.x)",
        "`Bad.materialize` raises NameError: name 'jnp' is not defined",
    ),
    "materialize that does not fit the fields": (
        (
            '    x: Float[tq.ArrayValue, "m r"]\n'
            '    y: Float[tq.ArrayValue, "n r"]\n'
            "    def materialize(self) -> Array:\n"
            "        return self.x @ self.y\n"
        ),
        "materialize",
        "return self.x @ self.y",
        (
            "`Bad.materialize` raises TypeError: dot_general requires contracting dimensions to "
            "have the same shape, got (3,) and (5,).; for x=Array f32[2,3], y=Array f32[5,3], "
            "which the annotations of its fields admit"
        ),
    ),
    "unknown class keyword": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array:\n"
            "        return self.x\n"
            'class Worse(Bad, materialization="never"): ...\n'
        ),
        "class",
        "class Worse",
        "`Worse`: materialization='never' is none of 'warn', 'allow', 'error'",
    ),
    "class keywords that exclude each other": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self) -> Array:\n"
            "        return self.x\n"
            'class Worse(Bad, materialization="warn", warn_on_materialize=True): ...\n'
        ),
        "class",
        "class Worse",
        "`Worse`: give materialization= or warn_on_materialize=, not both",
    ),
}


@pytest.mark.parametrize(("body", "code", "line", "text"), CLASSES.values(), ids=CLASSES.keys())
def test_what_is_wrong_with_a_class_is_found_at_its_line(
    package: Callable[..., Path], body: str, code: str, line: str, text: str
) -> None:
    name = f"sample_class_{abs(hash(body))}"
    finding, at = only(package, name, f"class Bad(tq.ImplicitArray):\n{body}")
    assert finding.code == code
    assert at.startswith(line)
    assert text in finding.text


def test_the_handler_that_settles_an_ambiguity_is_told(package: Callable[..., Path]) -> None:
    finding, _ = only(package, "sample_meet", HANDLERS["ambiguous"][0])
    assert finding.text.endswith(
        'add a handler for (x: Float[Low, "_"], y: Float[Array, "n"]), or give one a precedence'
    )


def test_a_class_that_no_handler_names_is_told_with_its_place(package: Callable[..., Path]) -> None:
    finding, _ = only(package, "sample_joins", HANDLERS["class that joins two kinds"][0])
    line = (
        (HEAD + HANDLERS["class that joins two kinds"][0])
        .splitlines()
        .index("class Both(Low, Other): ...")
    )
    file = Path("sample_joins/rules.py").resolve()
    assert f", where Both is the class at {file}:{line + 1}; " in finding.text


def test_all_that_is_wrong_in_one_module_is_found_in_one_run(package: Callable[..., Path]) -> None:
    left_out = ("declared twice under one name", "table that is not installed")
    bodies = {
        kind: re.sub(r"\b(bad|T)\b", rf"\g<1>{at}", body)
        for at, (kind, (body, *_)) in enumerate(HANDLERS.items())
        if kind not in left_out and "class " not in body and "def bad(" in body
    }
    package("sample_all", rules=HEAD + "".join(bodies.values()))
    codes = [HANDLERS[kind][1] for kind in bodies]
    assert [each.code for each in check_packages("sample_all").findings] == codes


def test_every_annotation_of_one_handler_is_looked_at(package: Callable[..., Path]) -> None:
    body = (
        'def bad(x: Lwo, y: Float[Low, "n ++"], z: str, /, *, axis: Foo) -> Arry: ...\n'
        "T = ops.sub.to(bad)\n"
    )
    package("sample_each", rules=HEAD + body)
    found = check_packages("sample_each").findings
    assert [(each.line, each.code) for each in found] == [(14, "annotation")] * 4 + [(14, "shape")]
    told = " ".join(each.text for each in found)
    assert all(f"`{name}`, '{text}'," in told for name, text in (("x", "Lwo"), ("axis", "Foo")))
    assert "the result, 'Arry'," in told
    assert "parameter 'z': str is not a dispatch class" in told


def test_every_field_of_a_class_is_looked_at(package: Callable[..., Path]) -> None:
    body = (
        "class Bad(tq.ImplicitArray):\n"
        '    x: Float[tq.ArrayValue, "n ++"]\n'
        '    y: Flaot[tq.ArrayValue, "n"]\n'
        "    z: bytes\n"
        "    def materialize(self) -> Array: ...\n"
    )
    package("sample_fields", rules=HEAD + body)
    found = check_packages("sample_fields").findings
    assert [(each.line, each.code) for each in found] == [
        (15, "field"),
        (16, "field"),
        (17, "field"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    base: Low\n"
            "    def materialize(self) -> Array:\n"
            "        return self.base.a\n",
            id="a field that is implicit only",
        ),
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    x: tq.ArrayValue\n"
            "    def materialize(self) -> Array:\n"
            "        return self.x @ self.x.T\n",
            id="a field of any rank",
        ),
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    x: Float[tq.ArrayValue, 'n']\n"
            "    def materialize(self) -> Array:\n"
            "        return self.x.reshape(self.shape)\n",
            id="a shape that instances are given",
        ),
        pytest.param(
            "class Fine(tq.ImplicitArray):\n"
            "    x: Float[tq.ArrayValue, 'n']\n"
            "    mode: str = tq.aux_field()\n"
            "    def materialize(self) -> Array:\n"
            "        return getattr(self.x, self.mode)()\n",
            id="auxiliary data that is not known",
        ),
        pytest.param(
            'def fine(x: Low, /) -> Array: ...\nT = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="a param that JAX leaves None",
        ),
        pytest.param(
            "def fine(x: Low, /, **params: Any) -> Array | tq.Declined:\n"
            "    def inner() -> Any:\n"
            "        return tq.DECLINE\n"
            "    if params:\n"
            "        return tq.DECLINE\n"
            "    return x.materialize()\n"
            'T = tq.HandlerTable("t", ops.sin.to(fine))\n',
            id="declines at times",
        ),
        pytest.param(
            "def fine(*operands: tq.ImplicitArray, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.any_primitive.to(lambda op, *x, **p: tq.DECLINE))\n',
            id="a handler that is a lambda",
        ),
    ],
)
def test_what_may_be_right_is_no_finding(package: Callable[..., Path], body: str) -> None:
    name = f"sample_fine_{abs(hash(body))}"
    package(name, rules=HEAD + body)
    assert check_packages(name).findings == ()


def test_a_group_s_handler_that_is_idle_for_a_part_is_but_noted(
    package: Callable[..., Path],
) -> None:
    body = (
        "def general(x: Low, /, **params: Any) -> Array: ...\n"
        "def rest(op: ops.UnaryOp, x: Low, /, **params: Any) -> Array: ...\n"
        'T = tq.HandlerTable("t", ops.cos.to(general, precedence=1), '
        "(ops.cos | ops.sin).to(rest))\n"
    )
    finding, _ = only(package, "sample_group", body)
    assert (finding.code, finding.severity) == ("unreachable", "note")


# --- packages ------------------------------------------------------------------------------------


def test_two_packages_that_are_ambiguous_together_are_found_in_both(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_base",
        rules=HEAD
        + 'def left(x: Low, y: Float[Array, "n"], /, **params: Any) -> Array: ...\n'
        + 'tq.install(tq.HandlerTable("base", ops.sub.to(left)))\n',
    )
    package(
        "sample_more",
        rules=HEAD
        + "from sample_base.rules import Low\n"
        + 'def right(x: Float[Low, "n"], y: Array, /, **params: Any) -> Array: ...\n'
        + 'tq.install(tq.HandlerTable("more", ops.sub.to(right)))\n',
    )
    (finding,) = check_packages("sample_more").findings
    assert finding.code == "ambiguous"
    assert "left (" in finding.text
    assert tq.check("sample_base") == [finding]


def test_what_other_packages_do_wrong_is_not_listed(package: Callable[..., Path]) -> None:
    package("sample_wrong", rules=HEAD + HANDLERS["undeclared decline"][0])
    package("sample_right", rules=HEAD + "import sample_wrong.rules\n")
    assert check_packages("sample_right").findings == ()


def test_all_findings_of_all_modules_are_listed_sorted_by_place(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_many",
        a=HEAD + HANDLERS["bad shape, of jaxtyping"][0] + HANDLERS["swallowed param"][0],
        b=HEAD + HANDLERS["undeclared decline"][0],
    )
    found = check_packages("sample_many").findings
    assert [(Path(each.file).name, each.code) for each in found] == [
        ("a.py", "shape"),
        ("a.py", "ignored-param"),
        ("b.py", "undeclared-decline"),
    ]


# --- imports that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        pytest.param("x = 1\ndef f(:\n", 2, "SyntaxError: invalid syntax", id="syntax"),
        pytest.param("x = 1\n\nx.y\n", 3, "AttributeError: 'int' object has no", id="error"),
        pytest.param("import not_there_at_all\n", 1, "ModuleNotFoundError: No", id="missing"),
        pytest.param("raise SystemExit(3)\n", 1, "SystemExit: 3", id="exit"),
        pytest.param("import sys\nsys.exit('no')\n", 2, "SystemExit: no", id="exit with a text"),
        pytest.param(
            "raise ExceptionGroup('two', [ValueError(), TypeError()])\n", 1,
            "ExceptionGroup: two (2 sub-exceptions)", id="group",
        ),
        pytest.param(
            "class Stop(BaseException): ...\nraise Stop('now')\n", 2, "Stop: now", id="base",
        ),
        pytest.param(
            "from typedqax import ops\nops.dot_generl\n", 2,
            "AttributeError: typedqax.ops has no 'dot_generl'; did you mean ops.dot_general",
            id="ours",
        ),
        pytest.param(
            "def f(n):\n    return f(n + 1)\nf(0)\n", 2, "RecursionError: maximum recursion",
            id="recursion",
        ),
    ],
)  # fmt: skip
def test_an_import_that_fails_is_a_finding_at_its_line(
    package: Callable[..., Path], source: str, line: int, text: str
) -> None:
    name = f"sample_import_{abs(hash(source))}"
    folder = package(name, broken=source, fine="")
    checked = check_packages(name)
    (finding,) = checked.findings
    assert (finding.file, finding.line) == (str(folder / "broken.py"), line)
    assert finding.code == "import"
    assert f"importing `{name}.broken` fails: {text}" in finding.text
    assert finding.text.endswith("; nothing else in it can be checked")
    assert checked.modules == 3


def test_the_line_of_the_package_is_named_when_another_one_fails(
    package: Callable[..., Path],
) -> None:
    package("sample_inner", rules="def f():\n    raise ValueError('no')\n")
    package("sample_outer", rules="\nfrom sample_inner.rules import f\nf()\n")
    (finding,) = check_packages("sample_outer").findings
    assert (Path(finding.file).parent.name, finding.line) == ("sample_outer", 3)


def test_one_failure_that_several_modules_meet_is_one_finding(
    package: Callable[..., Path],
) -> None:
    folder = package("sample_met", a="\nimport not_there_at_all\n", b="import sample_met.a\n")
    (finding,) = check_packages("sample_met").findings
    assert (finding.file, finding.line) == (str(folder / "a.py"), 2)
    assert finding.text.startswith("importing `sample_met.a` (and so `sample_met.b`) fails: ")


def test_a_circular_import_is_a_finding_where_it_closes(package: Callable[..., Path]) -> None:
    package(
        "sample_circle",
        a="from sample_circle.b import y\nx = 1\n",
        b="\nfrom sample_circle.a import x\ny = 1\n",
    )
    found = check_packages("sample_circle").findings
    assert [(Path(each.file).name, each.line, each.code) for each in found] == [
        ("a.py", 1, "import"),
        ("b.py", 2, "import"),
    ]
    assert "ImportError: cannot import name" in found[0].text


def test_a_package_whose_own_import_fails_is_one_finding(package: Callable[..., Path]) -> None:
    folder = package("sample_top", __init__="\n1 / 0\n", rules=HEAD)
    checked = check_packages("sample_top")
    (finding,) = checked.findings
    assert (finding.file, finding.line) == (str(folder / "__init__.py"), 2)
    assert finding.text == (
        "importing `sample_top` fails: ZeroDivisionError: division by zero; "
        "nothing else in it can be checked"
    )
    assert checked.modules == 1


def test_what_is_declared_before_an_import_fails_is_found(package: Callable[..., Path]) -> None:
    package("sample_before", rules=HEAD + HANDLERS["too few operands"][0] + "1 / 0\n")
    found = check_packages("sample_before").findings
    assert [(each.line, each.code) for each in found] == [(14, "arity"), (16, "import")]


# --- packages of many kinds ----------------------------------------------------------------------


def test_a_main_module_is_not_run(package: Callable[..., Path]) -> None:
    package("sample_main", __main__="raise SystemExit(1)\n", rules=HEAD)
    checked = check_packages("sample_main")
    assert (checked.findings, checked.modules) == ((), 2)


def test_the_modules_of_a_namespace_package_are_checked(package: Callable[..., Path]) -> None:
    folder = package("sample_space", rules=HEAD + HANDLERS["too few operands"][0])
    folder.joinpath("__init__.py").unlink()
    inner = folder / "inner"
    inner.mkdir()
    inner.joinpath("more.py").write_text(HEAD + HANDLERS["undeclared decline"][0])
    folder.joinpath("data").mkdir()
    checked = check_packages("sample_space")
    assert [(Path(each.file).name, each.code) for each in checked.findings] == [
        ("more.py", "undeclared-decline"),
        ("rules.py", "arity"),
    ]
    assert checked.modules == 4


def test_one_module_of_a_package_is_checked_alone(package: Callable[..., Path]) -> None:
    package(
        "sample_part",
        a=HEAD + HANDLERS["too few operands"][0],
        b=HEAD + HANDLERS["undeclared decline"][0],
    )
    checked = check_packages("sample_part.b")
    assert [each.code for each in checked.findings] == ["undeclared-decline"]
    assert checked.modules == 1


def test_a_module_without_a_package_is_checked(
    package: Callable[..., Path], tmp_path: Path
) -> None:
    package("sample_beside")
    tmp_path.joinpath("sample_single.py").write_text(HEAD + HANDLERS["too few operands"][0])
    (finding,) = check_packages("sample_single").findings
    assert (finding.file, finding.line) == (str(tmp_path / "sample_single.py"), 14)


def test_annotations_that_are_not_postponed_are_read_too(package: Callable[..., Path]) -> None:
    head = HEAD.replace("from __future__ import annotations\n", "")
    package("sample_eager", rules=head + HANDLERS["unbound axis of the result"][0])
    (finding,) = check_packages("sample_eager").findings
    assert (finding.line, finding.code) == (13, "unbound-axis")


def test_classes_and_handlers_made_in_functions_are_checked(package: Callable[..., Path]) -> None:
    body = (
        "def make() -> Any:\n"
        "    class Inner(tq.ImplicitArray):\n"
        '        x: Float[tq.ArrayValue, "n"]\n'
        "        def materialize(self) -> Array:\n"
        "            return self.xx\n"
        "    def bad(x: Inner, y: Low, /) -> Array: ...\n"
        "    return ops.sin.to(bad), Inner\n"
        "MADE = make()\n"
    )
    package("sample_made", rules=HEAD + body)
    found = check_packages("sample_made").findings
    assert [(each.line, each.code) for each in found] == [(18, "materialize"), (19, "arity")]


def test_the_line_of_a_decorated_handler_is_that_of_its_decorator(
    package: Callable[..., Path],
) -> None:
    body = (
        "import functools\n"
        "def plain(f: Any) -> Any:\n"
        "    @functools.wraps(f)\n"
        "    def wrapped(*args: Any, **params: Any) -> Any:\n"
        "        return f(*args, **params)\n"
        "    return wrapped\n"
        "@plain\n"
        "def bad(x: Low, y: Low, /) -> Array: ...\n"
        "T = ops.sin.to(bad)\n"
    )
    package("sample_decorated", rules=HEAD + body)
    (finding,) = check_packages("sample_decorated").findings
    assert (finding.line, finding.code) == (20, "arity")


def test_what_a_package_installs_when_imported_is_installed(
    package: Callable[..., Path],
) -> None:
    package(
        "sample_installs",
        rules=HEAD
        + "def fine(x: Low, /) -> Array: ...\n"
        + 'tq.install(tq.HandlerTable("t", ops.sin.to(fine)))\n',
    )
    assert check_packages("sample_installs").findings == ()
    assert [rule.handler.name for rule in installed_table().rules] == ["fine"]


def test_check_asks_for_a_package_that_was_imported() -> None:
    with pytest.raises(tq.TypedQaxError) as caught:
        tq.check("not_imported")
    assert str(caught.value) == (
        "'not_imported' has not been imported, so there is nothing to check: import it before, or "
        "run `python -m typedqax check not_imported`"
    )


def test_check_gives_as_data_what_the_command_prints(package: Callable[..., Path]) -> None:
    package("sample_data", rules=HEAD + HANDLERS["undeclared decline"][0])
    printed = check_packages("sample_data").findings
    assert tq.check("sample_data") == list(printed)
    assert [each for each in tq.check() if "sample_data" in each.packages] == list(printed)


# --- the command ---------------------------------------------------------------------------------


def test_the_command_prints_as_mypy_does_and_exits_with_1(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_out", rules=HEAD + HANDLERS["unbound axis of the result"][0])
    assert command.main(["check", "sample_out"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        (
            "sample_out/rules.py:14: error: `bad`: the axis 'k' of the result Float[Low, \"m k\"] "
            "is in no operand: misspelt, or write `_` (`...` for any number of axes)  "
            "[unbound-axis]"
        ),
        "Found 1 error in 1 file (checked 2 modules)",
    ]
    assert err == ""


def test_the_command_exits_with_0_when_there_are_only_notes(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_note", rules=HEAD + HANDLERS["param that is declined when it is there"][0])
    assert command.main(["check", "sample_note"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("sample_note/rules.py:14: note: `bad` declines every call")
    assert out[1] == "Success: no errors found in 2 modules (1 note)"


def test_a_clean_package_is_a_success(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_clean", rules=HEAD)
    assert command.main(["check", "sample_clean"]) == 0
    assert capsys.readouterr().out == "Success: no errors found in 2 modules\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param([], "usage: python -m typedqax check PKG", id="nothing"),
        pytest.param(["chekc", "x"], "typedqax: 'chekc' is no command; usage: ", id="command"),
        pytest.param(["check"], "typedqax: no package is given; usage: ", id="no package"),
        pytest.param(["check", "--all"], "typedqax: '--all' is no option; usage: ", id="option"),
        pytest.param(
            ["check", "not_there_at_all"],
            "typedqax: there is no package or module 'not_there_at_all' on the path",
            id="unknown",
        ),
        pytest.param(
            ["check", "json.not_there"], "typedqax: there is no module 'json.not_there'", id="inner"
        ),
        pytest.param(
            ["check", "some/rules.py"],
            "typedqax: 'some/rules.py' is no module's name; did you mean 'some.rules'?\n",
            id="path",
        ),
        pytest.param(
            ["check", "./some/"],
            "typedqax: './some/' is no module's name; did you mean 'some'?\n",
            id="folder",
        ),
        pytest.param(
            ["check", "../some"], "typedqax: '../some' is no module's name\n", id="not below"
        ),
        pytest.param(
            ["check", "colorsys.py"],
            "typedqax: there is no module 'colorsys.py'; did you mean 'colorsys'?\n",
            id="file of a module",
        ),
        pytest.param(
            ["check", "not_there_at_all.py"],
            "typedqax: there is no package or module 'not_there_at_all' on the path; "
            "did you mean 'not_there_at_all'?\n",
            id="file of no module",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(text)
    assert err.count("\n") == 1


def test_the_ready_made_arrays_have_no_errors() -> None:
    assert [each for each in tq.check("typedqax") if each.severity == "error"] == []


def test_a_check_registers_nothing_for_later(package: Callable[..., Path]) -> None:
    package("sample_later", rules=HEAD + HANDLERS["duplicate"][0])
    check_packages("sample_later")
    with pytest.raises(tq.SignatureError):
        tq.ops.sin.to(int)  # type: ignore[type-var]  # refused again, outside of the check


def test_an_unknown_package_is_one_error() -> None:
    with pytest.raises(WrongUsageError, match="no package or module 'not_there_at_all'"):
        check_packages("not_there_at_all")


def test_what_a_module_prints_is_no_part_of_the_output(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_prints", rules="print('hello')\n")
    assert command.main(["check", "sample_prints"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("Success: no errors found in 2 modules\n", "hello\n")


def test_an_interrupted_check_says_where_it_was(
    package: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    package("sample_stopped", rules="raise KeyboardInterrupt\n")
    assert command.main(["check", "sample_stopped"]) == 130
    assert capsys.readouterr().err == (
        "typedqax: interrupted while importing sample_stopped.rules\n"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["check", "--help"]], ids=" ".join)
def test_help_lists_every_code(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("usage: python -m typedqax check PKG [PKG...]\n\nImports every module")
    listed = out.partition("codes:\n")[2]
    assert re.findall(r"^    ([a-z-]+)  +\w", listed, re.MULTILINE) == sorted(CODES)


def test_each_code_is_that_of_a_finding_that_is_tested() -> None:
    tested = {code for _, code, _, _ in (*HANDLERS.values(), *CLASSES.values())}
    assert tested | {"import"} == set(CODES)


def test_the_command_runs_as_a_module_without_asserts(package: Callable[..., Path]) -> None:
    folder = package("sample_run", rules=HEAD + HANDLERS["duplicate"][0])
    done = subprocess.run(
        [sys.executable, "-O", "-m", "typedqax", "check", "sample_run"],
        cwd=folder.parent,
        env={"PYTHONPATH": str(Path(tq.__file__).parent.parent), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.endswith("Found 1 error in 1 file (checked 2 modules)\n")
