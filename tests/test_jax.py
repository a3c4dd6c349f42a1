"""The door to JAX: what this library relies on of it holds for the JAX that is installed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import typedqax as tq
from tests.implicit_world import Plain, transformed
from typedqax import _jax


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float32", "float32"),
        (jnp.bfloat16, "bfloat16"),
        (jnp.int4, "int4"),
        (jnp.float8_e4m3fn, "float8_e4m3fn"),
        (jax.dtypes.float0, "float0"),
        (bool, "bool"),
        (np.complex64, "complex64"),
    ],
)
def test_a_dtype_is_named_as_jax_names_it(dtype: Any, name: str) -> None:
    assert _jax.dtype_name(np.dtype(dtype)) == name


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_a_key_s_dtype_names_its_implementation(impl: str) -> None:
    key = jax.random.key(0, impl=impl)
    assert _jax.dtype_name(key.dtype) == str(key.dtype)
    assert _jax.dtype_name(key.dtype).startswith("key<")


def test_avals_are_shown_as_jax_shows_them() -> None:
    for array in (jnp.zeros((3, 4)), jnp.zeros((), jnp.bfloat16), jax.random.key(0)):
        assert _jax.short_aval(array.shape, array.dtype) == jax.typeof(array).str_short(
            short_dtypes=True
        )


def test_out_avals_are_those_of_the_primitive() -> None:
    aval = jax.typeof(jnp.zeros((3, 4)))
    (out,) = _jax.out_avals(lax.transpose_p, [aval], {"permutation": (1, 0)}) or []
    assert (out.shape, out.dtype) == ((4, 3), jnp.float32)


def test_out_avals_of_a_primitive_with_several_results_are_a_list() -> None:
    aval = jax.typeof(jnp.zeros((3, 4)))
    outs = _jax.out_avals(lax.split_p, [aval], {"sizes": (1, 3), "axis": 1}) or []
    assert [out.shape for out in outs] == [(3, 1), (3, 3)]


def test_out_avals_work_with_params_that_cannot_be_hashed() -> None:
    aval = jax.typeof(jnp.zeros((3, 4)))
    (out,) = _jax.out_avals(lax.transpose_p, [aval], {"permutation": np.array([1, 0])}) or []
    assert tuple(out.shape) == (4, 3)


def test_out_avals_of_operands_that_a_primitive_refuses_are_its_own_error() -> None:
    one, other = jax.typeof(jnp.zeros(3)), jax.typeof(jnp.zeros(4))
    with pytest.raises(TypeError):
        _jax.out_avals(lax.add_p, [one, other], {})


def test_binding_under_another_trace_does_not_ask_the_current_one() -> None:
    outer, ones = _jax.current_trace(), jnp.ones(3)

    def f(x: Any) -> Any:
        assert _jax.current_trace() is not outer
        with _jax.under(outer):
            negated = _jax.bind_under(outer, lax.neg_p, [ones], {})
        return x + negated

    jaxpr = jax.make_jaxpr(f)(jnp.ones(3))
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["add"]


def test_a_canonicalizer_decides_what_a_primitive_sees() -> None:
    class Wrapper:
        pass

    _jax.register_canonicalizer(Wrapper, lambda _: jnp.ones(2))
    _jax.register_aval(Wrapper, lambda _: jax.typeof(jnp.ones(2)))
    wrapper: Any = Wrapper()
    np.testing.assert_array_equal(jax.jit(lambda: lax.neg(wrapper))(), -np.ones(2))
    np.testing.assert_array_equal(jax.vmap(lambda x: lax.add(x, wrapper))(np.ones((3, 2))), 2)


def test_primitives_are_found_by_their_path_also_where_they_were_before() -> None:
    assert _jax.primitive_at("add_p") is lax.add_p
    assert _jax.primitive_at("random.prng.random_wrap_p").name == "random_wrap"
    with pytest.raises(AttributeError):
        _jax.primitive_at("no_such_thing_p")
    with pytest.raises(ModuleNotFoundError):
        _jax.primitive_at("no_such_module.add_p")


def test_a_source_info_names_the_user_s_line() -> None:
    info = _jax.source_info()
    line = test_a_source_info_names_the_user_s_line.__code__.co_firstlineno + 1
    frame = _jax.user_frame(info)
    assert frame is not None
    assert (frame.file, frame.line) == (__file__, line)


def test_compiled_programs_name_the_user_s_file_and_not_this_package() -> None:
    f = jax.jit(transformed(lambda x: jnp.sin(x) @ x.T))
    text = f.lower(Plain(jnp.ones((2, 2)))).as_text(debug_info=True)
    assert Path(__file__).name in text
    for module in Path(tq.__file__).parent.glob("_*.py"):
        assert f"typedqax/{module.name}" not in text


def test_jax_s_own_functions_are_told_from_the_user_s() -> None:
    jaxprs = []

    @jax.jit
    def mine(x: Any) -> Any:
        return jnp.linalg.norm(x)

    jaxpr = jax.make_jaxpr(mine)(jnp.ones(3))
    outer = jaxpr.eqns[0].params["jaxpr"]
    jaxprs.append(_jax.is_defined_in_jax(_jax.jaxpr_debug_info(outer)))
    inner = next(e.params["jaxpr"] for e in outer.eqns if e.primitive.name == "jit")
    jaxprs.append(_jax.is_defined_in_jax(_jax.jaxpr_debug_info(inner)))
    assert jaxprs == [False, True]


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(f"{Path(jax.__file__).parent}opt/solver.py", id="jax"),
        pytest.param(f"{Path(tq.__file__).parent}_contrib/arrays.py", id="typedqax"),
    ],
)
def test_a_package_whose_name_begins_alike_is_the_user_s(beside: str) -> None:
    found: dict[str, Any] = {"_jax": _jax, "jax": jax}
    text = """
def f(x): return x
jaxpr = jax.make_jaxpr(jax.jit(f))(1.0).eqns[0].params["jaxpr"]
info, running = _jax.source_info(), _jax.Frame.of(_jax.running_frame())
"""
    exec(compile(text, beside, "exec"), found)
    assert not _jax.is_defined_in_jax(_jax.jaxpr_debug_info(found["jaxpr"]))
    assert _jax.user_frame(found["info"]) == _jax.Frame(beside, 4, "<module>")
    assert found["running"] == _jax.Frame(beside, 4, "<module>")


def test_a_closed_jaxpr_without_consts_is_the_same_object_each_time() -> None:
    jaxpr = jax.make_jaxpr(jnp.sin)(1.0).jaxpr
    assert _jax.close_jaxpr(jaxpr) is _jax.close_jaxpr(jaxpr)


def test_shapes_are_canonical() -> None:
    sizes: Any = np.array([2, 3])
    shape = _jax.canonical_shape(sizes)
    assert shape == (2, 3)
    assert all(type(size) is int for size in shape)


def test_leak_checking_is_seen() -> None:
    with jax.checking_leaks():
        assert _jax.checks_leaks()
    with jax.check_tracer_leaks(False):
        assert not _jax.checks_leaks()


def test_what_is_carried_is_in_force_again_where_an_equation_is_evaluated() -> None:
    seen: list[object] = []

    class Watch(_jax.Trace):
        def __init__(self, parent: Any) -> None:
            super().__init__()  # type: ignore[no-untyped-call]  # untyped in JAX
            self.parent = parent

        def process_primitive(self, primitive: Any, operands: Any, params: Any, /) -> Any:
            seen.append((primitive.name, _jax.carried()))
            return _jax.bind_under(self.parent, primitive, operands, params)

    def traced(x: Any) -> Any:
        with _jax.carrying("outer"):
            y = jnp.sin(x)
            with _jax.carrying("inner"), jax.named_scope("named"):
                y = jnp.cos(y)
        return jnp.tanh(y)

    x = jnp.ones(3)
    jaxpr = jax.make_jaxpr(traced)(x)
    with _jax.under(Watch(_jax.current_trace())):
        _jax.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, x)
    assert seen == [("sin", "outer"), ("cos", "inner"), ("tanh", None)]
    assert _jax.carried() is None


def test_what_is_compiled_quickly_gives_the_same() -> None:
    options = _jax.quick_compilation()
    x = jnp.arange(6.0).reshape(2, 3)
    compiled = jax.jit(lambda x: jnp.sin(x) @ x.T).lower(x).compile(compiler_options=options)
    np.testing.assert_allclose(compiled(x), np.sin(x) @ x.T, rtol=1e-6)
    assert options


def test_an_option_that_xla_has_not_is_seen() -> None:
    assert _jax._is_known({"xla_backend_optimization_level": "0"})
    assert not _jax._is_known({"xla_no_such_option": True})


def test_an_error_may_keep_the_frames_of_jax() -> None:
    def files() -> set[str]:
        with pytest.raises(ZeroDivisionError) as caught:
            jax.jit(lambda x: x * (1 // 0))(1.0)
        return {Path(entry.path).name for entry in caught.traceback}

    with _jax.whole_tracebacks():
        assert "pjit.py" in files()
    assert "pjit.py" not in files()


def test_the_functions_of_jax_that_take_an_argument_apart_for_its_numbers_are_where_they_were() -> (
    None
):
    for file, names in _jax._TAKE_ARRAYS.items():
        body = ast.parse(Path(file).read_text()).body
        defined = {each.name for each in body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        gone = {"_vjp"}  # from JAX 0.10.2 on
        assert (names or frozenset()) - defined <= gone, file
