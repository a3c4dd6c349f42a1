"""Mistakes in handlers and classes, each with the code, the line and the text of its finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from typedqax._check import check_packages
from typedqax._findings import Finding

HEAD = """\
from __future__ import annotations
from typing import Any
from jax import Array
from jaxtyping import Float, Int
import typedqax as tq
from typedqax import ops

class Low(tq.ImplicitArray):
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    def materialize(self) -> Float[Array, "m n"]:
        return self.a @ self.b.T

"""


def only(package: Callable[..., Path], name: str, body: str) -> tuple[Finding, str]:
    """The one finding about a package of one module, and the line of the module it is at."""
    package(name, rules=HEAD + body)
    checked = check_packages(name)
    assert [each.code for each in checked.findings] == [checked.findings[0].code]
    (finding,) = checked.findings
    assert Path(finding.file).name == "rules.py"
    return finding, (HEAD + body).splitlines()[finding.line - 1].strip()


HANDLERS = {
    "handler of a base that stands for something else": (
        (
            "class Bad(Low):\n"
            '    m: Float[tq.ArrayValue, ""]\n'
            "    def materialize(self) -> Array:\n"
            "        return super().materialize() * self.m\n"
            "def of_low(x: Low, /, **params: Any) -> Array: ...\n"
            'T = tq.HandlerTable("t", ops.sin.to(of_low))\n'
        ),
        "inherited-handler",
        "class Bad(",
        "`Bad` overrides the `materialize` of Low, and handlers declared for Low take it, which",
    ),
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
    "result with its axes exchanged": (
        (
            'def bad(x: Float[Low, "m n"], /) -> Float[Low, "n m"]: ...\n'
            'T = tq.HandlerTable("t", ops.sin.to(bad))\n'
        ),
        "result",
        "def bad(",
        (
            '`bad` cannot give Float[Low, "n m"]: sin(Low f32[2,3]) is f32[2,3]; axis n is 2 (the '
            "result, axis 0), but 3 from x, axis 1"
        ),
    ),
    "result of another dtype": (
        (
            'def bad(x: Float[Low, "m n"], y: Array, /) -> Float[Array, "m n"]: ...\n'
            'T = tq.HandlerTable("t", ops.lt.to(bad))\n'
        ),
        "result",
        "def bad(",
        (
            '`bad` cannot give Float[Array, "m n"]: lt(Low f32[2,3], Array f32[2,3]) is '
            'bool[2,3]; the result: dtype bool, expected Float[Array, "m n"]'
        ),
    ),
    "fewer axes than arrays of the class have": (
        (
            'def bad(x: Float[Low, "n"], /, **params: Any) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.sin.to(bad))\n'
        ),
        "unreachable",
        "def bad(",
        (
            '`bad` never runs: `x: Float[Low, "n"]` takes fewer axes than `Low.materialize` gives '
            '(Float[Array, "m n"])'
        ),
    ),
    "another dtype than arrays of the class have": (
        (
            'def bad(y: Array, x: Int[Low, "..."], /, **params: Any) -> Array: ...\n'
            'T = tq.HandlerTable("t", ops.add.to(bad, commutative=True))\n'
        ),
        "unreachable",
        "def bad(",
        (
            '`bad` never runs: `x: Int[Low, "..."]` takes another dtype than `Low.materialize` '
            'gives (Float[Array, "m n"])'
        ),
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
    "group of ops that take different operands": (
        (
            "def fine(op: Any, x: Low, y: Low, /, **params: Any) -> Array: ...\n"
            "T = tq.HandlerTable('t', (ops.sub | ops.sin).to(fine))\n"
        ),
        "table",
        "T = tq.HandlerTable(",
        "ops.sin cannot be in a group with ops.sub: a BinaryGroup holds BinaryOps, and it is",
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
            'def left(x: Low, y: Float[Array, "m n"], /, **params: Any) -> Array: ...\n'
            'def right(x: Float[Low, "m n"], y: Array, /, **params: Any) -> Array: ...\n'
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
    "a policy without with": (
        'def f() -> None:\n    tq.materialization("error")\n    tq.materialize(1)\n',
        "not-entered",
        'tq.materialization("error")',
        (
            "`tq.materialization('error')` by itself does nothing: the policy is in force in a "
            "block, `with tq.materialization('error'):`"
        ),
    ),
    "an installation without with": (
        'from typedqax import installed\ninstalled(tq.HandlerTable("t"))\n',
        "not-entered",
        'installed(tq.HandlerTable("t"))',
        "by itself does nothing: the table is installed in a block, `with installed(",
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
    "nothing returned": (
        (
            "def bad(x: Low, /, **params: Any) -> Array:\n"
            '    """Negate."""\n'
            "    -x.materialize()\n"
            'T = tq.HandlerTable("t", ops.neg.to(bad))\n'
        ),
        "result",
        "def bad(",
        "`bad` gives nothing: no `return` in it has a value",
    ),
    "class of declines returned": (
        (
            "def bad(x: Low, /, **params: Any) -> Array | tq.Declined:\n"
            "    return x.materialize() if params else tq.Declined\n"
            'T = tq.HandlerTable("t", ops.neg.to(bad))\n'
        ),
        "result",
        "return x.materialize()",
        "`bad` returns tq.Declined, a class; DECLINE is meant",
    ),
    "one order of two that are alike": (
        (
            'def bad(x: Low, y: Float[Array, ""], /) -> Low: ...\n'
            'T = tq.HandlerTable("t", ops.mul.to(bad))\n'
        ),
        "one-sided",
        "def bad(",
        (
            "`bad` takes one order of `mul`, and nothing takes mul(Array f32[], Low f32[]): "
            "commutative=True stands for both"
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
    "materialize that is misspelt": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialise(self) -> Array:\n"
            "        return self.x\n"
        ),
        "materialize",
        "class Bad",
        (
            "`Bad` has no `materialize`, so that there are no instances of it; is `materialise` "
            "meant?"
        ),
    ),
    "materialize that asks for more": (
        (
            '    x: Float[tq.ArrayValue, "m n"]\n'
            "    def materialize(self, factor: float, *, other: int = 0) -> Array:\n"
            "        return self.x\n"
        ),
        "materialize",
        "def materialize",
        "`Bad.materialize` is called with the array alone, and asks for `factor`",
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
