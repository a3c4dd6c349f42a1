"""Ops: their facts agree with JAX, they bind, they make rules, and they group."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import pydoc
import re
import typing
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beartype.door import is_bearable
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, primitives
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Float

import typedqax as tq
from typedqax import _jax, ops
from typedqax.ops import _facts, _generate, _generated

PUBLIC = sorted(name for name in dir(primitives) if name.endswith("_p"))


class Box(tq.ImplicitArray, materialization="error"):
    """An array in a box; nothing may open it but a handler."""

    inner: Float[tq.ArrayValue, "..."]

    def materialize(self) -> Float[Array, "..."]:
        return jnp.asarray(self.inner)


def box(*shape: int) -> Box:
    return Box(jnp.array(np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)))


# --- names that are no ops -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dot_genral", "; did you mean ops.dot_general"),
        ("matmul", ", since matmul is no primitive: JAX computes it by ops.dot_general"),
        ("power", ", since power is no primitive: JAX computes it by ops.pow"),
        ("add_p", "; the op of that primitive is ops.add"),
        ("and", "; the op of that primitive is ops.and_"),
        ("elementwise", "; did you mean ops.elementwise_"),
        ("quxquux", "; dir(typedqax.ops) lists the names"),
    ],
)
def test_a_name_that_is_no_op_is_told_which_op_was_meant(name: str, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(ops, name)
    assert str(caught.value).startswith(f"typedqax.ops has no {name!r}{text}")
    assert not hasattr(ops, name)


def test_what_python_asks_of_modules_is_simply_not_there() -> None:
    with pytest.raises(AttributeError, match=r"^typedqax\.ops has no '__wrapped__'$"):
        ops.__wrapped__  # type: ignore[attr-defined]  # what is tested  # noqa: B018


ONE: Any = np.ones((2, 2), np.float32)
WHOLE: Any = np.ones((2, 2), np.int32)


def _primitives_in(jaxpr: Jaxpr) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for value in eqn.params.values():
            for each in value if isinstance(value, (tuple, list)) else (value,):
                inner = each.jaxpr if isinstance(each, ClosedJaxpr) else each
                if isinstance(inner, Jaxpr):
                    yield from _primitives_in(inner)


def _custom(wrap: Any) -> Callable[..., Any]:
    function = wrap(jnp.sin)
    if wrap is jax.custom_jvp:
        function.defjvp(lambda x, t: (x, t))
    if wrap is jax.custom_vjp:
        function.defvjp(lambda x: (x, x), lambda _, t: (t,))
    return lambda x: function(x)


HOW_CALLED: dict[str, Callable[[], Any]] = {
    "around": lambda: jnp.around(ONE),
    "argsort": lambda: jnp.argsort(ONE),
    "arange": lambda: jnp.arange(3),
    "astype": lambda: jnp.astype(ONE, jnp.int32),
    "batch_matmul": lambda: lax.batch_matmul(ONE[None], ONE[None]),
    "broadcast_to": lambda: jnp.broadcast_to(ONE, (3, 2, 2)),
    "broadcasted_iota": lambda: lax.broadcasted_iota(jnp.int32, (3,), 0),
    "checkpoint": lambda: jax.checkpoint(jnp.sin)(ONE),
    "clip": lambda: jnp.clip(ONE, 0, 1),
    "concat": lambda: jnp.concat([ONE, ONE]),
    "conjugate": lambda: jnp.conjugate(ONE + 1j),
    "conv": lambda: lax.conv(ONE[None, None], ONE[None, None], (1, 1), "SAME"),
    "conv_with_general_padding": lambda: lax.conv_with_general_padding(
        ONE[None, None], ONE[None, None], (1, 1), "SAME", None, None
    ),
    "custom_jvp": lambda: _custom(jax.custom_jvp)(ONE),
    "custom_vjp": lambda: _custom(jax.custom_vjp)(ONE),
    "einsum": lambda: jnp.einsum("ij,jk", ONE, ONE),
    "expand_dims": lambda: jnp.expand_dims(ONE, 0),
    "fori_loop": lambda: lax.fori_loop(0, jnp.sum(WHOLE), lambda _, x: x, ONE),
    "full": lambda: jnp.full((3,), 1.0),
    "full_like": lambda: jnp.full_like(ONE, 1.0),
    "map": lambda: lax.map(jnp.sin, ONE),
    "matvec": lambda: jnp.matvec(ONE, ONE[0]),
    "moveaxis": lambda: jnp.moveaxis(ONE, 0, 1),
    "ones": lambda: jnp.ones(3),
    "permute_dims": lambda: jnp.permute_dims(ONE, (1, 0)),
    "ravel": lambda: jnp.ravel(ONE),
    "relu": lambda: jax.nn.relu(ONE),
    "select": lambda: lax.select(ONE > 0, ONE, ONE),
    "sigmoid": lambda: jax.nn.sigmoid(ONE),
    "swapaxes": lambda: jnp.swapaxes(ONE, 0, 1),
    "switch": lambda: lax.switch(WHOLE[0, 0] + jnp.sum(WHOLE), [jnp.sin, jnp.cos], ONE),
    "take": lambda: jnp.take(ONE, WHOLE),
    "take_along_axis": lambda: jnp.take_along_axis(ONE, WHOLE, 0),
    "tril": lambda: jnp.tril(ONE),
    "triu": lambda: jnp.triu(ONE),
    "where": lambda: jnp.where(ONE > 0, ONE, ONE),
    "while_loop": lambda: lax.while_loop(lambda x: jnp.all(x < 0), lambda x: x, ONE),
    "zeros": lambda: jnp.zeros(3),
}


def _called(name: str) -> Callable[[], Any]:
    """A call of the function of JAX that has this name."""
    if name in HOW_CALLED:
        return HOW_CALLED[name]
    function = getattr(jnp, name)

    def call() -> Any:
        for operands in ((WHOLE, WHOLE), (WHOLE,), (ONE, ONE), (ONE,)):
            whole = operands[0] is WHOLE
            if whole and not any(part in name for part in ("shift", "bitwise", "invert")):
                continue
            try:
                return function(*operands)
            except TypeError:
                continue
        raise AssertionError(name)

    return call


@pytest.mark.parametrize(
    ("op", "name"),
    [(op, name) for op, names in ops._COMPUTE.items() for name in names.split()],
)
def test_the_op_that_is_named_computes_the_function(op: str, name: str) -> None:
    primitive: Any = getattr(ops, op)
    assert primitive.name in set(_primitives_in(jax.make_jaxpr(_called(name))().jaxpr))
    assert not hasattr(ops, name)


# --- what ops say of themselves ------------------------------------------------------------------


def test_an_op_s_own_doc_says_what_it_computes_and_its_params() -> None:
    assert ops.dot_general.__doc__ == (
        "Product of two arrays, summed over contracting axes, batch axes apart.\n\n"
        "An op of two operands.\n"
        "Params: dimension_numbers, out_sharding, precision, preferred_element_type."
    )
    assert "In a jaxpr it is `while`." in str(ops.while_.__doc__)
    assert str(ops.neg.__doc__).endswith("Params: none.")
    assert repr(ops.dot_general) == "ops.dot_general"


def test_help_for_an_op_shows_its_own_doc() -> None:
    shown = pydoc.plain(pydoc.render_doc(ops.dot_general))
    assert ops.dot_general.doc in shown
    assert "Params: dimension_numbers" in shown


def test_classes_of_ops_keep_their_docs() -> None:
    assert ops.BinaryOp.__doc__ == "An op of two operands."
    assert str(ops.AnyOp.__doc__).startswith("One primitive of JAX.")
    assert "An op of two operands." in pydoc.plain(pydoc.render_doc(ops.BinaryOp))


# --- what ops say of primitives ------------------------------------------------------------------


def test_the_committed_ops_are_those_of_the_jax_that_they_name() -> None:
    if jax.__version__ != _generated.JAX_VERSION:
        with pytest.raises(LookupError, match=f"is of JAX {re.escape(_generated.JAX_VERSION)}, "):
            "".join(_generate.difference())
        return
    changes = "".join(_generate.difference())
    assert not changes, (
        "python -m typedqax.ops._generate would change typedqax/ops/_generated.py:\n" + changes
    )


# What older versions lack of the primitives that are listed.
LACKING = {"0.10.0": {"mulhi", "stack", "unstack"}, "0.10.1": {"mulhi"}}


def test_an_op_whose_primitive_this_jax_lacks_is_not_there_and_says_why() -> None:
    generated = {
        op.attribute: op
        for name in _generated.__all__
        if isinstance(op := getattr(_generated, name), ops.AnyOp)
    }
    lacking = LACKING.get(jax.__version__, set())
    assert set(generated) - {op.attribute for op in ops.listed()} == lacking
    for name in lacking:
        text = rf"^typedqax\.ops has no '{name}': this JAX, {jax.__version__}, has no primitive "
        with pytest.raises(AttributeError, match=text + f"{name}$"):
            getattr(ops, name)
        assert name not in ops.__all__
        assert ops.find(name) is None
        assert generated[name] not in ops.any_primitive


def test_a_group_leaves_out_what_this_jax_lacks() -> None:
    gone = ops.UnaryOp("gone", _no_params, _no_params, doc="Gone.", path="lax.lax.gone_p")
    assert not gone.is_in_jax
    assert tuple(ops.UnaryGroup("some", ops.neg, gone)) == (ops.neg,)


def test_every_primitive_that_the_corpus_of_programs_met_has_an_op() -> None:
    met = json.loads(_generate.CORPUS.read_text())["primitives"]
    assert len(met) > 150
    generated = {op.name for op in vars(_generated).values() if isinstance(op, ops.AnyOp)}
    assert set(met) <= generated


def test_every_public_primitive_has_an_op() -> None:
    missing = [name for name in PUBLIC if ops.find(getattr(primitives, name)) is None]
    assert not missing
    assert len(PUBLIC) >= 175


@pytest.mark.parametrize("op", ops.listed(), ids=repr)
def test_an_op_is_the_primitive_that_jax_has(op: ops.AnyOp) -> None:
    assert isinstance(op.primitive, Primitive)
    assert op.primitive.name == op.name
    assert op.primitive.multiple_results == op.multiple_results
    assert ops.find(op.primitive) is op
    assert getattr(ops, op.attribute) is op


def test_no_two_ops_have_one_name() -> None:
    names = [op.name for op in ops.listed()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("op", ops.listed(), ids=repr)
def test_an_op_has_a_line_of_doc(op: ops.AnyOp) -> None:
    assert op.doc.endswith(".")
    assert op.doc[0].isupper()
    assert len(op.doc) <= 90


def _relu_like() -> Callable[[Array], Array]:
    @jax.custom_jvp
    def identity(x: Array) -> Array:
        return x

    identity.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return identity


X = jnp.ones((4,), jnp.float32)
M = jnp.ones((4, 4), jnp.float32)
KEY = jax.random.key(0)
MESH = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: jnp.sin(x) ** 3 + jnp.exp(-x) * jnp.log1p(x) / jnp.sqrt(x), (X,)),
    "matmul": (lambda m, x: m @ x, (M, X)),
    "precise matmul": (lambda m: jnp.matmul(m, m, precision="highest"), (M,)),
    "einsum": (lambda m: jnp.einsum("ij,kj->ki", m, m, preferred_element_type=jnp.float32), (M,)),
    "reductions": (lambda m: (m.sum(0), m.max(), m.prod(1), m.argmax(0), (m > 0).any()), (M,)),
    "cumulative": (
        lambda m: (jnp.cumsum(m, 0), lax.cummax(m, 1), lax.cumprod(m, reverse=True)),
        (M,),
    ),
    "shapes": (lambda m: m.reshape(2, 8).T[::2, 1:, None].squeeze(-1)[::-1], (M,)),
    "join and cut": (
        lambda x: (jnp.stack([x, x]), jnp.concatenate([x, x]), jnp.split(x, 2), jnp.tile(x, 2)),
        (X,),
    ),
    "unstack": (jnp.unstack, (M,)),
    "indexing": (lambda m, i: (m[i], m[jnp.array([0, 2])], m.at[1].set(0.0)), (M, jnp.int32(1))),
    "scatters": (lambda m: (m.at[0].add(1.0), m.at[0].mul(2.0), m.at[0].min(0.0)), (M,)),
    "dynamic": (
        lambda m, i: lax.dynamic_update_slice(m, lax.dynamic_slice(m, (i, i), (2, 2)), (i, i)),
        (M, jnp.int32(1)),
    ),
    "choice": (lambda x: jnp.where(x > 0, x, 0.0), (X,)),
    "convert": (lambda x: x.astype(jnp.float16).astype(jnp.int8), (X,)),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 2)), (X,)),
    "pad": (lambda x: jnp.pad(x, 1), (X,)),
    "convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        (jnp.ones((1, 2, 8, 8)), jnp.ones((3, 2, 3, 3))),
    ),
    "pooling": (lambda m: lax.reduce_window(m, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), (M,)),
    "fft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), (X,)),
    "linear algebra": (lambda m: (jnp.linalg.eigh(m), jnp.linalg.qr(m), jnp.linalg.svd(m)), (M,)),
    "eigenvectors": (jnp.linalg.eig, (M,)),
    "ragged matmul": (lambda m: lax.ragged_dot(m, m[None], jnp.array([4])), (M,)),
    "shards": (
        jax.shard_map(
            jnp.sin, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i")
        ),
        (X,),
    ),
    "solve": (lambda m: (jnp.linalg.solve(m, m), jax.scipy.linalg.cho_solve((m, True), m)), (M,)),
    "random": (
        lambda k: (jax.random.normal(k, (3,)), jax.random.split(k), jax.random.fold_in(k, 1)),
        (KEY,),
    ),
    "random seeds": (lambda s: jax.random.key_data(jax.random.clone(jax.random.key(s))), (7,)),
    "random bits": (lambda k: jax.random.gamma(k, jnp.float32(2.0)), (KEY,)),
    "jit": (jax.jit(jnp.tanh), (X,)),
    "scan": (lambda m: lax.scan(lambda c, x: (c + x, c), m[0], m), (M,)),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2, x), (X,)),
    "cond": (lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), (X,)),
    "platforms": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (X,)),
    "remat": (jax.grad(jax.checkpoint(lambda x: jnp.sin(x).sum())), (X,)),
    "custom jvp": (_relu_like(), (X,)),
    "callbacks": (
        lambda x: (jax.pure_callback(np.sin, x, x), jax.debug.print("{}", x)),
        (X,),
    ),
    "barrier": (lambda x: lax.optimization_barrier((x, lax.stop_gradient(x))), (X,)),
    "collectives": (
        jax.vmap(lambda x: lax.psum(x, "i") + lax.axis_index("i"), axis_name="i"),
        (M,),
    ),
    "bits": (lambda i: (~i & i | i ^ i, i << 1, lax.population_count(i)), (jnp.arange(4),)),
    "special": (lambda x: (jax.lax.lgamma(x), jax.lax.erf_inv(x), jax.lax.igamma(x, x)), (X,)),
    "quantized": (lambda x: lax.reduce_precision(jnp.round(x), 5, 10), (X,)),
}


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(inner, ClosedJaxpr):
                    yield from _equations(inner.jaxpr)
                elif isinstance(inner, Jaxpr):
                    yield from _equations(inner)


@pytest.mark.lenient_promotion
@pytest.mark.parametrize("name", PROGRAMS)
def test_params_operands_and_types_are_those_of_traced_programs(name: str) -> None:
    function, arguments = PROGRAMS[name]
    for equation in _equations(jax.make_jaxpr(function)(*arguments).jaxpr):
        op = ops.find(equation.primitive)
        assert op is not None, f"no op for {equation.primitive}"
        assert op.arity in {None, len(equation.invars)}, op
        assert set(op.params) <= set(equation.params), op
        hints = _param_types(op)
        assert set(equation.params) <= set(hints), op
        for param, value in equation.params.items():
            plain = _without_numpy_ints(value)
            assert is_bearable(plain, hints[param]), f"{op}: {param}={value!r} is no {hints[param]}"


def _without_numpy_ints(value: Any) -> Any:
    """JAX's callers compute an axis by numpy here and there; the library takes those as ints."""
    if type(value) is tuple:
        return tuple(map(_without_numpy_ints, value))
    return int(value) if isinstance(value, np.integer) else value


def _param_types(op: ops.AnyOp) -> dict[str, Any]:
    words = op.attribute.rstrip("_").split("_")
    typed = getattr(ops, "".join(word.capitalize() for word in words) + "Params", None)
    hints = {} if typed is None else typing.get_type_hints(typed)
    return {name: hints[param] for param, name in _jax.params_here(op.name, hints).items()}


def test_params_that_siblings_lack_are_not_required() -> None:
    assert ops.MulParams.__optional_keys__ == {"out_dtype"}
    assert ops.mul.params == ("out_dtype",)
    assert ops.ReduceSumParams.__optional_keys__ == {"out_sharding"}
    assert ops.ExpParams.__optional_keys__ == {"accuracy"}


def test_equal_params_have_one_type_so_that_their_ops_can_be_grouped() -> None:
    tree = ast.parse(_generate.GENERATED.read_text())
    functions = {
        node.name: ast.unparse(node.args) for node in tree.body if isinstance(node, ast.FunctionDef)
    }
    assert len(set(functions.values())) == len(functions)


def test_most_types_of_params_are_known() -> None:
    known = [
        hint is not object
        for op in ops.listed()
        for param, hint in _param_types(op).items()
        if param in op.params
    ]
    assert sum(known) / len(known) > 0.9


@pytest.mark.parametrize(
    ("kinds", "written"),
    [
        pytest.param(["int"], "int", id="one type"),
        pytest.param(["TypedInt", "int"], "int", id="an int with a dtype is an int"),
        pytest.param(["None", "int"], "int | None", id="None comes last"),
        pytest.param(["tuple[()]", "tuple[int, ...]"], "tuple[int, ...]", id="empty tuples"),
        pytest.param(
            ["tuple[tuple[int | int64, ...], ...]"], "tuple[tuple[int, ...], ...]", id="nested"
        ),
        pytest.param(["np.dtype"], "np.dtype", id="dtypes"),
        pytest.param(["PRNGImpl"], "object", id="what has no public name"),
        pytest.param([], "object", id="never seen"),
    ],
)
def test_a_type_is_written_from_what_was_seen(kinds: list[str], written: str) -> None:
    assert _generate.corpus_type(kinds) == written


def test_facts_speak_of_generated_ops_only() -> None:
    by_attribute = {
        op.attribute if op.attribute in _facts.DOCS else op.attribute.removesuffix("_"): op
        for name in _generated.__all__
        if isinstance(op := getattr(_generated, name), ops.AnyOp)
    }
    for table in (
        _facts.OP_TYPES,
        _facts.BIND_TYPES,
        _facts.UNTYPED,
        _facts.EQUATION_PARAMS,
        _facts.SOMETIMES,
        _facts.HIGHER_ORDER,
        _facts.VARIADIC,
        _facts.NOT_PUBLIC,
        _facts.DOCS,
    ):
        assert set(table) <= set(by_attribute)
    for attribute, types in _facts.OP_TYPES.items():
        op = by_attribute[attribute]
        assert set(_jax.params_here(op.name, types).values()) <= set(op.params), attribute


def test_the_namespace_offers_nothing_but_ops_their_params_and_groups() -> None:
    kinds = (ops.AnyOp, ops.AnyGroup)
    helpers = {"computing", "find", "listed", "of_primitive"}
    for name in set(ops.__all__) - helpers:
        value = getattr(ops, name)
        assert isinstance(value, (*kinds, type)), name
    assert set(_generated.__all__) - set(ops.__all__) == set(ops._absent)
    assert "jax" not in ops.__all__


# --- binding -------------------------------------------------------------------------------------


def test_bind_applies_the_primitive() -> None:
    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(ops.add.bind(x, x), [2.0, 4.0])
    np.testing.assert_array_equal(ops.mul.bind(x, 3.0), [3.0, 6.0])
    np.testing.assert_array_equal(ops.concatenate.bind(x, x, dimension=0), [1.0, 2.0, 1.0, 2.0])
    np.testing.assert_array_equal(
        ops.iota.bind(dtype=np.dtype("int32"), shape=(2,), dimension=0), [0, 1]
    )


def test_params_that_may_be_none_may_be_left_out_of_bind() -> None:
    m = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    numbers = (((1,), (0,)), ((), ()))
    np.testing.assert_array_equal(
        ops.dot_general.bind(m, m, dimension_numbers=numbers), [[7.0, 10.0], [15.0, 22.0]]
    )
    np.testing.assert_array_equal(ops.reshape.bind(m, new_sizes=(4,)), [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(ops.exp.bind(jnp.zeros(2)), [1.0, 1.0])


def test_an_op_of_several_results_gives_a_list() -> None:
    values, indices = ops.top_k.bind(jnp.array([3.0, 9.0, 5.0]), k=2, axis=0)
    np.testing.assert_array_equal(values, [9.0, 5.0])
    np.testing.assert_array_equal(indices, [1, 2])
    assert isinstance(ops.sort.bind(X, X, dimension=0, is_stable=True, num_keys=1), list)


def test_what_is_bound_without_optional_params_is_what_jax_binds() -> None:
    (equation,) = [
        equation
        for equation in _equations(jax.make_jaxpr(PROGRAMS["ragged matmul"][0])(M).jaxpr)
        if equation.primitive.name == "ragged_dot_general"
    ]
    given = {name: value for name, value in equation.params.items() if value is not None}
    np.testing.assert_array_equal(
        ops.ragged_dot_general.bind(M, M[None], jnp.array([4]), **given), M @ M
    )


def test_bind_is_traced_like_any_other_application() -> None:
    jaxpr = jax.make_jaxpr(jax.grad(ops.sin.bind))(1.0)
    assert [equation.primitive.name for equation in jaxpr.eqns][-1] == "mul"


def test_bind_dispatches_on_implicit_operands() -> None:
    def negate(x: Box, /) -> Box:
        return Box(-x.inner)

    with tq.installed(tq.HandlerTable("boxes", ops.neg.to(negate))):
        result = ops.neg.bind(box(2))
    assert isinstance(result, Box)
    np.testing.assert_array_equal(result.inner, [-1.0, -2.0])


@pytest.mark.parametrize("name", ["jit", "scan", "while", "cond", "custom jvp", "remat"])
def test_ops_that_carry_programs_bind_with_the_params_of_a_jaxpr(name: str) -> None:
    function, arguments = PROGRAMS[name]
    jaxpr = jax.make_jaxpr(function)(*arguments)
    programs = [e for e in jaxpr.eqns if isinstance(ops.find(e.primitive), ops.HigherOrderOp)]
    assert programs
    values: dict[Any, Any] = dict(zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True))
    values |= dict(zip(jaxpr.jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        given = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
        op = ops.find(equation.primitive)
        assert op is not None
        out = op.bind(*given, **equation.params)
        results = out if isinstance(out, list) else [out]
        values |= dict(zip(equation.outvars, results, strict=True))
    for got, want in zip(
        [values[v] for v in jaxpr.jaxpr.outvars], jax.tree.leaves(function(*arguments)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_out_aval_is_what_evaluation_would_give() -> None:
    numbers = (((1,), (0,)), ((), ()))
    a = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    b = jax.ShapeDtypeStruct((3, 5), jnp.float32)
    out = ops.dot_general.out_aval(a, b, dimension_numbers=numbers)
    assert (out.shape, out.dtype) == ((2, 5), jnp.float32)
    assert ops.lt.out_aval(a, a).dtype == bool
    assert [o.shape for o in ops.top_k.out_aval(a, k=2, axis=1)] == [(2, 2), (2, 2)]
    assert ops.random_bits.out_aval(KEY, bit_width=32, shape=(2,)).shape == (2,)


def test_out_aval_takes_implicit_arrays_and_opens_none() -> None:
    out = ops.transpose.out_aval(box(2, 3), permutation=(1, 0))
    assert (out.shape, out.dtype) == ((3, 2), jnp.float32)


def test_out_aval_of_a_call_is_that_of_its_program() -> None:
    equation = jax.make_jaxpr(_relu_like())(X).eqns[0]
    (out,) = ops.custom_jvp_call.out_aval(X, **equation.params)
    assert (out.shape, out.dtype) == ((4,), jnp.float32)


def test_a_param_that_the_op_does_not_have_is_an_error_that_names_those_it_has() -> None:
    told = r"^ops\.transpose has no param 'permutations' \(it has: permutation\)\."
    with pytest.raises(TypeError, match=told):
        ops.transpose.bind(M, permutations=(1, 0))  # type: ignore[call-arg]  # that is the mistake


def test_a_param_that_is_missing_is_an_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="permutation"):
        ops.transpose.bind(M)  # type: ignore[call-arg]  # that is the mistake


# --- finding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "op"),
    [
        pytest.param("add", ops.add, id="a name"),
        pytest.param("and", ops.and_, id="a keyword"),
        pytest.param("and_", ops.and_, id="a keyword, as an attribute"),
        pytest.param("scatter-add", ops.scatter_add, id="the name in a jaxpr"),
        pytest.param("scatter_add", ops.scatter_add, id="the name in lax"),
        pytest.param("add_any", ops.add_jaxvals, id="another name in a jaxpr"),
        pytest.param("add_jaxvals", ops.add_jaxvals, id="another name among primitives"),
        pytest.param(lax.while_p, ops.while_, id="a primitive"),
    ],
)
def test_an_op_is_found(wanted: str | Primitive, op: ops.AnyOp) -> None:
    assert ops.find(wanted) is op


def test_another_primitive_of_the_same_name_is_not_taken_for_jax_s_own() -> None:
    impostor = Primitive("add")
    assert ops.find(impostor) is None
    assert ops.find("no_such_op") is None


def _no_params() -> None: ...


def test_an_op_that_this_jax_does_not_have_says_so_when_it_is_used() -> None:
    gone = ops.UnaryOp("gone", _no_params, _no_params, doc="Gone.", path="lax.lax.gone_p")
    assert not gone.stands_for(lax.neg_p)
    with pytest.raises(tq.TypedQaxError, match=r"ops.gone is not in this version of JAX.*gone_p"):
        gone.bind(X)
    moved = ops.UnaryOp("moved", _no_params, _no_params, doc="Moved.", path="no_module.moved_p")
    with pytest.raises(tq.TypedQaxError, match="no_module"):
        _ = moved.primitive


def test_a_primitive_that_is_not_listed_has_an_op_too() -> None:
    twice = Primitive("twice_of_this_test")
    twice.def_impl(lambda x: x + x)
    twice.def_abstract_eval(lambda x: x)
    op = ops.of_primitive(twice)
    assert repr(op) == "<op of twice_of_this_test>"
    np.testing.assert_array_equal(op.bind(jnp.ones(2)), [2.0, 2.0])
    assert op.target().params is None
    assert op.target().arity is None


@pytest.mark.parametrize("op", [ops.add, ops.and_, ops.scatter_add, ops.jit], ids=repr)
def test_an_op_is_the_same_one_after_pickling_and_copying(op: ops.AnyOp) -> None:
    assert pickle.loads(pickle.dumps(op)) is op
    assert copy.copy(op) is op
    assert copy.deepcopy(op) is op


# --- rules and groups ----------------------------------------------------------------------------


def test_to_makes_a_rule_for_that_primitive() -> None:
    def negate(x: Box, /) -> Box:
        return x

    rule = ops.neg.to(negate, precedence=3, replace=True)
    (target,) = rule.targets
    assert (target.name, target.arity, target.params, target.first) == ("neg", 1, (), None)
    assert (rule.precedence, rule.replace, rule.commutative) == (3, True, False)
    assert rule.handler.function is negate


def test_a_rule_of_a_commutative_op_may_stand_for_both_orders() -> None:
    def left(x: Box, y: Array, /) -> Box:
        return Box(x.inner + y)

    table = tq.HandlerTable("boxes", ops.add.to(left, commutative=True))
    add = tq.use_implicit_args(lax.add, handlers=table)
    for operands in ((jnp.ones(2), box(2)), (box(2), jnp.ones(2))):
        result = add(*operands)
        assert isinstance(result, Box)
        np.testing.assert_array_equal(result.inner, [2.0, 3.0])


def test_a_group_gives_its_handler_the_op_that_was_met() -> None:
    def scale(op: ops.BinaryOp, x: Box, y: Float[Array, ""], /, **params: Any) -> Box:
        return Box(op.bind(x.inner, y, **params))

    table = tq.HandlerTable("boxes", (ops.mul | ops.div).to(scale))
    for function, numbers in ((jnp.multiply, [2.0, 4.0]), (jnp.divide, [0.5, 1.0])):
        result = tq.use_implicit_args(function, handlers=table)(box(2), jnp.float32(2))
        assert isinstance(result, Box)
        np.testing.assert_array_equal(result.inner, numbers)


def test_the_group_of_every_primitive_comes_before_materialization() -> None:
    met: list[str] = []

    def inside(op: ops.AnyOp, /, *operands: tq.ArrayValue, **params: Any) -> Array:
        met.append(repr(op))
        opened = [o.inner if isinstance(o, Box) else o for o in operands]
        result = op.bind(*opened, **params)
        assert not isinstance(result, list)
        return result

    table = tq.HandlerTable("boxes", ops.any_primitive.to(inside))
    result = tq.use_implicit_args(jnp.tanh, handlers=table)(box(2))
    np.testing.assert_allclose(result, np.tanh([1.0, 2.0]), rtol=1e-6)
    assert met == ["ops.tanh"]


def test_groups_are_made_of_ops_and_of_groups() -> None:
    three = ops.add | ops.sub | ops.max
    assert tuple(three) == (ops.add, ops.sub, ops.max)
    assert tuple(ops.min | three) == (ops.min, ops.add, ops.sub, ops.max)
    assert tuple(three | three) == tuple(three)
    assert len(three) == 3
    assert ops.sub in three
    assert ops.mul not in three
    assert repr(three) == "ops.add | ops.sub | ops.max"


@pytest.mark.parametrize(
    ("other", "told"),
    [
        pytest.param(ops.neg, "ops.neg cannot be in a group with ops.add", id="operands"),
        pytest.param("mul", "'mul' cannot be in a group with ops.add", id="a name"),
        pytest.param(ops.top_k, "it is MultiUnaryOp", id="results"),
    ],
)
def test_what_no_handler_could_be_for_is_not_grouped(other: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        _ = ops.add | other


def test_a_mixed_group_holds_any_ops() -> None:
    group = ops.MixedGroup("joins", ops.concatenate, ops.pad, ops.top_k)
    assert [target.arity for target in group.targets()] == [None, 2, 1]
    assert tuple(group | ops.neg) == (*group, ops.neg)


NAMED = {
    name: group
    for name in ops.__all__
    if isinstance(group := getattr(ops, name), ops.AnyGroup) and group is not ops.any_primitive
}


@pytest.mark.parametrize("name", NAMED)
def test_a_named_group_has_the_name_that_users_write(name: str) -> None:
    assert repr(NAMED[name]) == f"ops.{name}"


@pytest.mark.parametrize(("a", "b"), list(combinations(NAMED, 2)), ids=" and ".join)
def test_named_groups_share_no_op_so_that_a_table_can_have_both(a: str, b: str) -> None:
    assert set(NAMED[a]).isdisjoint(NAMED[b])


@pytest.mark.parametrize("op", ops.elementwise_unary, ids=repr)
def test_elementwise_unary_ops_keep_the_shape(op: ops.UnaryOp) -> None:
    params: dict[str, dict[str, Any]] = {
        "integer_pow": {"y": 2},
        "reduce_precision": {"exponent_bits": 5, "mantissa_bits": 10},
        "round": {"rounding_method": lax.RoundingMethod.TO_NEAREST_EVEN},
        "conj": {"input_dtype": np.dtype("complex64")},
    }
    dtype = {"clz": "int32", "population_count": "int32", "not": "int32"}.get(op.name, "float32")
    if op.name in {"conj", "imag", "real"}:
        dtype = "complex64"
    operand = jax.ShapeDtypeStruct((2, 3), np.dtype(dtype))
    assert op.out_aval(operand, **params.get(op.name, {})).shape == (2, 3)


@pytest.mark.parametrize("op", ops.elementwise_binary, ids=repr)
def test_elementwise_binary_ops_keep_the_shape(op: ops.BinaryOp) -> None:
    integers = {"and", "or", "xor", "mulhi"}
    dtype = "int32" if op.name in integers or op.name.startswith("shift") else "float32"
    operand = jax.ShapeDtypeStruct((2, 3), np.dtype(dtype))
    assert op.out_aval(operand, operand).shape == (2, 3)


@pytest.mark.parametrize("op", ops.reductions, ids=repr)
def test_reductions_drop_their_axes(op: ops.UnaryOp) -> None:
    logical = op.name in {"reduce_and", "reduce_or", "reduce_xor"}
    operand = jax.ShapeDtypeStruct((2, 3, 4), np.dtype("int32" if logical else "float32"))
    assert op.out_aval(operand, axes=(0, 2)).shape == (3,)


@pytest.mark.parametrize("op", ops.cumulative, ids=repr)
def test_cumulative_ops_run_along_an_axis(op: ops.UnaryOp) -> None:
    assert op.params == ("axis", "reverse")
    operand = jax.ShapeDtypeStruct((2, 3), np.dtype("float32"))
    assert op.out_aval(operand, axis=1, reverse=False).shape == (2, 3)
