"""Functions with their own derivatives: the rules stay, though wrong ones are used to see it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from tests.agreement import X, assert_agrees, assert_same, low_rank, primitives, rng, total, use
from tests.implicit_kinds import KINDS, Plain, Zeros, dense, numbers
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks


@jax.custom_jvp
def tripled(x: Any, w: Any) -> Any:
    """Its tangent is three times too large."""
    return jnp.sin(x @ w)


@tripled.defjvp
def _tripled_jvp(primals: Any, tangents: Any) -> Any:
    (x, w), (dx, dw) = primals, tangents
    return tripled(x, w), 3 * jnp.cos(x @ w) * (dx @ w + x @ dw)


@jax.custom_vjp
def fivefold(x: Any, w: Any) -> Any:
    """Its cotangents are five times too large."""
    return jnp.sin(x @ w)


def _fivefold_fwd(x: Any, w: Any) -> Any:
    return fivefold(x, w), (x, w, jnp.cos(x @ w))


def _fivefold_bwd(residuals: Any, ct: Any) -> Any:
    x, w, slope = residuals
    return 5 * (ct * slope) @ w.T, 5 * x.T @ (ct * slope)


fivefold.defvjp(_fivefold_fwd, _fivefold_bwd)

OUTSIDE: dict[str, Any] = {
    "grad": lambda f: f,
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "scan": lambda f: lambda x, w: lax.scan(lambda c, _: (c, f(x, w)), 0, None, length=2)[1],
    "vmap": lambda f: lambda x, w: jax.vmap(f, in_axes=(0, None))(jnp.stack([x, x]), w),
}


def gradients(f: Any, x: Any, w: Any) -> Any:
    return jax.grad(lambda *a: total(f(*a)), argnums=(0, 1))(x, w)


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("f", [tripled, fivefold], ids=["custom_jvp", "custom_vjp"])
def test_a_rule_decides_the_gradient_of_the_fields(f: Any, outside: str) -> None:
    w, wrap = low_rank(), OUTSIDE[outside]
    got = gradients(wrap(use(f)), X, w)
    want = gradients(wrap(lambda x, w: f(x, dense(w))), X, w)
    assert_same(got, want)
    right = gradients(lambda x, w: jnp.sin(x @ dense(w)), X, w)
    assert not np.allclose(got[0], right[0])


@pytest.mark.parametrize("f", [tripled, fivefold], ids=["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("inner", ["grad", "jit", "checkpoint"])
def test_a_rule_decides_the_gradient_inside_the_transform(f: Any, inner: str) -> None:
    wrapped = OUTSIDE[inner](f)
    assert_agrees(lambda x, w: gradients(wrapped, x, w), X, low_rank())


@pytest.mark.parametrize("f", [tripled, fivefold], ids=["custom_jvp", "custom_vjp"])
def test_the_function_stays_one_with_its_own_rule_and_runs_the_handlers(f: Any) -> None:
    with tq.materialization("error"):
        found = primitives(f, X, low_rank())
    assert found["custom_jvp_call"] + found["custom_vjp_call"] == 1


def test_a_rule_is_kept_through_second_derivatives() -> None:
    def second(f: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(jax.grad(lambda x: total(f(x, low_rank())))(x)))(X)

    assert_same(second(use(tripled)), second(lambda x, w: tripled(x, dense(w))))
    assert_same(second(use(fivefold)), second(lambda x, w: fivefold(x, dense(w))))


def test_the_jvp_along_the_fields_is_that_of_the_array_they_stand_for() -> None:
    assert_agrees(tripled, X, low_rank(), way="jvp")
    assert_agrees(jax.nn.relu, low_rank(), way="jvp")


def test_arguments_that_are_not_differentiated_stay_as_they_are() -> None:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def f(power: int, w: Any) -> Any:
        return jnp.sum(w**power)

    def backward(power: int, w: Any, ct: Any) -> Any:
        return (7 * ct * power * w,)

    f.defvjp(lambda power, w: (f(power, w), w), backward)
    got = jax.grad(use(functools.partial(f, 2)))(low_rank())
    assert_same(got, jax.grad(lambda w: f(2, dense(w)))(low_rank()))


def test_symbolic_zeros_are_those_of_the_value() -> None:
    flags: list[Any] = []

    @jax.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return x @ w

    def forward(x: Any, w: Any) -> Any:
        flags.append((x.perturbed, w.perturbed))
        return x.value @ w.value, (x.value, w.value)

    def backward(residuals: Any, ct: Any) -> Any:
        x, w = residuals
        return 2 * ct @ w.T, 3 * x.T @ ct

    f.defvjp(forward, backward, symbolic_zeros=True)
    got = jax.grad(lambda w: total(use(f)(X, w)))(low_rank())
    assert_same(got, jax.grad(lambda w: total(f(X, dense(w))))(low_rank()))
    got = jax.grad(lambda x: total(use(f)(x, low_rank())))(X)
    assert_same(got, jax.grad(lambda x: total(f(x, dense(low_rank()))))(X))
    assert flags == [(False, True)] * 2 + [(True, False)] * 2


def test_a_jvp_rule_sees_symbolic_zeros() -> None:
    @jax.custom_jvp
    def f(x: Any, w: Any) -> Any:
        return x @ w

    def rule(primals: Any, tangents: Any) -> Any:
        (x, w), (dx, dw) = primals, tangents
        zero = jax.custom_derivatives.SymbolicZero
        parts = [0 if type(dx) is zero else 2 * dx @ w, 0 if type(dw) is zero else 3 * x @ dw]
        return f(x, w), sum(parts)

    f.defjvp(rule, symbolic_zeros=True)
    for args in ((X, low_rank()),):
        assert_same(
            jax.grad(lambda w, x=args[0]: total(use(f)(x, w)))(args[1]),
            jax.grad(lambda w, x=args[0]: total(f(x, dense(w))))(args[1]),
        )


def test_a_forward_pass_that_checkpoint_may_drop_keeps_implicit_arrays() -> None:
    @jax.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return jnp.sin(x @ w)

    def forward(x: Any, w: Any) -> Any:
        return jnp.sin(x @ w), (x, w * jnp.float32(5), jnp.cos(x @ w))

    def backward(residuals: Any, ct: Any) -> Any:
        x, w, slope = residuals
        return (ct * slope) @ w.T, 5 * x.T @ (ct * slope)

    f.defvjp(forward, backward, optimize_remat=True)
    for wrap in (lambda f: f, jax.checkpoint):
        with tq.materialization("error"):
            got = gradients(wrap(use(f)), X, low_rank())
        assert_same(got, gradients(wrap(lambda x, w: f(x, dense(w))), X, low_rank()))


def test_integer_leaves_get_the_zeros_of_jax() -> None:
    q = KINDS["quantized"].make(rng(), (3, 4))
    for f in (tripled, fivefold):
        got = jax.grad(lambda q, f=f: total(use(f)(X, q)), allow_int=True)(q)
        want = jax.grad(lambda q, f=f: total(f(X, dense(q))), allow_int=True)(q)
        assert_same(got, want)
        assert got.q.dtype == jax.dtypes.float0


def test_a_rule_may_close_over_implicit_arrays() -> None:
    def outer(x: Any, w: Any) -> Any:
        @jax.custom_vjp
        def f(x: Any) -> Any:
            return x @ w

        f.defvjp(lambda x: (x @ w, (x,)), lambda residuals, ct: (11 * ct @ w.T,))
        return f(x)

    got = jax.grad(lambda x: total(use(outer)(x, low_rank())))(X)
    assert_same(got, jax.grad(lambda x: total(outer(x, dense(low_rank()))))(X))
    use(outer)(X, low_rank())


def test_results_without_leaves_and_arguments_without_leaves() -> None:
    z = Zeros(shape=(2, 3), dtype=jnp.float32)
    assert_agrees(jax.nn.relu, z, way="jit of grad of jit")
    assert_agrees(lambda z, x: jax.nn.silu(z) + jax.nn.relu(x), z, X)


def test_a_jvp_by_an_array_that_has_no_numbers_is_none_by_the_operand_of_a_rule() -> None:
    def f(x: Any, z: Any) -> Any:
        return jnp.sin(x) * jnp.sum(fivefold(z, jnp.ones((3, 4))))

    z = Zeros(shape=(2, 3), dtype=jnp.float32)
    assert_agrees(f, jnp.float32(0.5), z, way="jvp")
    assert_agrees(f, jnp.float32(0.5), z, way="jit of grad of jit")


@pytest.mark.parametrize("symbolic_zeros", [False, True])
def test_no_dense_operand_is_kept_that_the_rule_does_not_keep(symbolic_zeros: bool) -> None:
    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x) + y

    def forward(x: Any, y: Any) -> Any:
        return f(*(each.value if symbolic_zeros else each for each in (x, y))), None

    f.defvjp(forward, lambda _, ct: (ct, 2 * ct), symbolic_zeros=symbolic_zeros)

    def many(x: Any, w: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            x, w = carry
            return (f(x, jnp.cos(x)), w), None

        return lax.scan(step, (x, w), None, length=5)[0][0]

    def kept(g: Any) -> list[tuple[int, ...]]:
        return sorted(leaf.shape for leaf in jax.tree.leaves(jax.vjp(jax.jit(g), X[0])[1]))

    w = low_rank()
    assert kept(lambda x: use(many)(x, w)) == kept(lambda x: many(x, dense(w)))


def test_a_rule_that_gives_too_few_cotangents_is_named_as_jax_names_it() -> None:
    @jax.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return x @ w

    f.defvjp(lambda x, w: (x @ w, ()), lambda residuals, ct: (ct,))
    with pytest.raises(TypeError, match="must produce"):
        jax.grad(lambda w: total(use(f)(X, w)))(low_rank())


@pytest.mark.parametrize(
    "f",
    [jax.nn.relu, jax.nn.gelu, jax.nn.silu, jax.nn.relu6, jax.nn.logsumexp, jax.nn.softplus],
    ids=lambda f: f.__name__,
)
def test_functions_of_jax_itself(f: Any) -> None:
    assert_agrees(f, low_rank())
    assert_agrees(f, Plain(numbers(rng(), 3)), way="jit of grad of jit")


# --- classes that must not become dense ----------------------------------------------------------


class Masked(tq.ImplicitArray, materialization="error"):
    """Entries that are there where the mask says so."""

    x: Float[tq.ArrayValue, "*s"]
    mask: tq.ArrayValue

    def materialize(self) -> Float[Array, "*s"]:
        return jnp.where(self.mask, self.x, 0.0)


def through(op: ops.UnaryOp, m: Masked, /, **params: Any) -> Masked:
    return Masked(op.bind(m.x, **params), m.mask)


def against(op: ops.BinaryOp, m: Masked, y: Array, /, **params: Any) -> Masked:
    return Masked(op.bind(m.x, y, **params), m.mask)


def select(p: Array, a: Array, m: Masked, /) -> Masked:
    return Masked(lax.select_n(p, a, m.x), m.mask)


MASKED = tq.HandlerTable(
    "masked",
    ops.elementwise_unary.to(through),
    (ops.max | ops.mul).to(against),
    ops.select_n.to(select),
)
MASK = jnp.array([True, False, True])


def masked() -> Masked:
    return Masked(jnp.array([-1.0, 2.0, 3.0]), MASK)


@pytest.mark.parametrize(
    "f",
    [jax.nn.relu, jax.jit(jnp.sin), jax.checkpoint(jnp.cos)],
    ids=["relu", "jit", "checkpoint"],
)
def test_a_mask_passes_through_functions_with_rules(f: Any) -> None:
    got = use(f, MASKED)(masked())
    assert isinstance(got, Masked)
    assert_same((got.x, got.mask), (f(masked().x), MASK))


@pytest.mark.parametrize(
    ("f", "primitive"),
    [
        (lambda m: lax.cond(jnp.sum(jnp.ones(2)) > 0, lambda: m, lambda: jnp.ones(3)), "cond"),
        (lambda m: lax.fori_loop(0, 2, lambda _, c: jnp.ones(3), m), "scan"),
        (lambda m: lax.scan(lambda c, x: (c, x), 0, m), "scan"),
        (lambda m: jnp.cumsum(m), "cumsum"),
        (lambda m: jax.nn.silu(m), "mul"),
        (lambda m: jax.checkpoint(jnp.cumsum)(m), "cumsum"),
        (lambda m: jax.pure_callback(np.sin, m, m), "pure_callback"),
    ],
    ids=["cond", "carry", "slices", "no handler", "in a rule", "in a checkpoint", "callback"],
)
def test_a_mask_is_never_dropped(f: Any, primitive: str) -> None:
    with pytest.raises(tq.MaterializationError, match=f"(?s)Masked.*{primitive}"):
        use(f, MASKED)(masked())
    with tq.materialization("allow"), pytest.raises(tq.MaterializationError, match="Masked"):
        use(f, MASKED)(masked())


def test_a_block_that_names_the_class_lets_it_be_dense_and_keeps_the_rule() -> None:
    with tq.materialization("allow", Masked):
        got = use(jax.nn.relu, MASKED)(masked())
        assert_same(got, jnp.array([0.0, 0.0, 3.0]))
        assert primitives(jax.nn.relu, masked())["custom_jvp_call"] == 1
