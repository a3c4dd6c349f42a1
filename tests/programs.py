"""Small programs over arrays, drawn at random: primitives, control flow, transformations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.scipy.special import logsumexp


class Draw(Protocol):
    """Where choices come from: hypothesis, which can shrink them."""

    def pick(self, options: Sequence[Any]) -> Any:
        """One of them, the simplest first."""


@dataclass(frozen=True)
class Step:
    """One operation of a program.

    Attributes:
        op: its name in `PRIMITIVES` or `BLOCKS`.
        args: the values it takes, by position in the environment.
        bodies: the programs inside it.
    """

    op: str
    args: tuple[int, ...]
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True)
class Body:
    """A straight program: steps that extend its environment, and which values it gives back."""

    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        env = list(values)
        for step in self.steps:
            out = apply(step, [env[i] for i in step.args])
            env += out if isinstance(out, (list, tuple)) else [out]
        return tuple(env[i] for i in self.results)


def apply(step: Step, args: list[Any]) -> Any:
    """What a step gives."""
    if step.op in BLOCKS:
        return BLOCKS[step.op].run(step.bodies, *args)
    return PRIMITIVES[step.op].run(*args)


# --- primitives ----------------------------------------------------------------------------------

Aval = Any


@dataclass(frozen=True)
class Op:
    """An operation, and which operands it takes."""

    run: Callable[..., Any]
    takes: Callable[..., bool]
    arity: int = 1


def floats(x: Aval) -> bool:
    return bool(x.dtype == jnp.float32)


def matrix(x: Aval) -> bool:
    return floats(x) and x.ndim == 2


def some(x: Aval) -> bool:
    return floats(x) and x.ndim > 0


def small(x: Aval) -> bool:
    return floats(x) and x.ndim < 3


def ints(x: Aval) -> bool:
    return bool(x.dtype == jnp.int32)


def bools(x: Aval) -> bool:
    return bool(x.dtype == jnp.bool_)


def alike(x: Aval, y: Aval) -> bool:
    return floats(x) and x.dtype == y.dtype and x.shape == y.shape


def scaling(x: Aval, y: Aval) -> bool:
    return floats(x) and floats(y) and y.ndim == 0


def contract(x: Aval, y: Aval) -> bool:
    return some(x) and some(y) and y.ndim < 3 and x.shape[-1] == y.shape[0]


def contract_last(x: Aval, y: Aval) -> bool:
    return matrix(x) and matrix(y) and x.shape[-1] == y.shape[-1]


def stackable(x: Aval, y: Aval) -> bool:
    return some(x) and some(y) and x.shape[1:] == y.shape[1:]


# What jumps does so where no drawn number lands by design: two ways to compute the same number
# differ in the last digit.
PRIMITIVES: dict[str, Op] = {
    "neg": Op(lax.neg, floats),
    "sin": Op(lax.sin, floats),
    "tanh": Op(lax.tanh, floats),
    "abs": Op(lambda x: lax.abs(x + 0.0123), floats),
    "square": Op(lambda x: lax.square(x), floats),
    "integer_pow": Op(lambda x: lax.integer_pow(lax.tanh(x), 3), floats),
    "exp": Op(lambda x: jnp.exp(-(x * x)), floats),
    "log1p": Op(lambda x: jnp.log1p(x * x), floats),
    "sqrt": Op(lambda x: jnp.sqrt(x * x + 1.0), floats),
    "logistic": Op(lax.logistic, floats),
    "erf": Op(lax.erf, floats),
    "sign": Op(lambda x: lax.sign(x - 0.1234567), floats),
    "floor": Op(lambda x: lax.floor(x + 0.1234567), floats),
    "stop_gradient": Op(lax.stop_gradient, floats),
    "copy": Op(jnp.copy, floats),
    "barrier": Op(lambda x: lax.optimization_barrier(x), floats),
    "name": Op(lambda x: checkpoint_name(x, "here"), floats),
    "half": Op(lambda x: x.astype(jnp.bfloat16).astype(jnp.float32) * 0.0 + x, floats),
    "cumsum": Op(lambda x: jnp.cumsum(x, axis=0), some),
    "sort": Op(lambda x: jnp.sort(x, axis=-1), some),
    "rev": Op(lambda x: x[::-1], some),
    "transpose": Op(lambda x: x.T, matrix),
    "ravel": Op(jnp.ravel, floats),
    "expand": Op(lambda x: x[None], small),
    "row": Op(lambda x: x[0], some),
    "slice": Op(lambda x: x[1:], lambda x: some(x) and x.shape[0] > 1),
    "pad": Op(lambda x: jnp.pad(x, 1), some),
    "broadcast": Op(lambda x: jnp.broadcast_to(x, (2, *x.shape)), small),
    "at": Op(lambda x: x[jnp.sum(x > 0.1234567) % x.shape[0]], some),
    "matrices": Op(lambda x: x.reshape(-1, *x.shape[2:]), lambda x: floats(x) and x.ndim == 3),
    "sum": Op(jnp.sum, floats),
    "sum_axis": Op(lambda x: jnp.sum(x, axis=0), some),
    "mean": Op(jnp.mean, floats),
    "max": Op(lambda x: jnp.max(x, axis=-1), some),
    "prod": Op(lambda x: jnp.prod(lax.tanh(x)), floats),
    "argmax": Op(lambda x: jnp.argmax(x, axis=-1).astype(jnp.int32), some),
    "take": Op(lambda x: jnp.take(x, jnp.array([0, x.shape[0] - 1, 0]), axis=0), some),
    "dynamic_slice": Op(lambda x: lax.dynamic_slice_in_dim(x, x.shape[0] - 1, 1), some),
    "set": Op(lambda x: x.at[0].set(0.5), some),
    "add_at": Op(lambda x: x.at[-1].add(x[0]), some),
    "split": Op(lambda x: jnp.split(x, 2)[1], lambda x: some(x) and x.shape[0] % 2 == 0),
    "softmax": Op(lambda x: jax.nn.softmax(x, axis=-1), some),
    "logsumexp": Op(lambda x: logsumexp(x, axis=-1), some),
    "relu": Op(lambda x: jax.nn.relu(x - 0.1234567), floats),
    "gelu": Op(jax.nn.gelu, floats),
    "silu": Op(jax.nn.silu, floats),
    "conv": Op(
        lambda x: jnp.convolve(x, jnp.array([0.5, 0.25]), mode="same"),
        lambda x: some(x) and x.ndim == 1 and x.shape[0] > 1,
    ),
    "complex": Op(lambda x: jnp.real(jnp.exp(1j * lax.complex(x, x * 0.5))), floats),
    "clip": Op(lambda x: jnp.clip(x, -0.3, 0.7), floats),
    "to_int": Op(lambda x: (x * 8.0 + 0.1234567).astype(jnp.int32), floats),
    "less": Op(lambda x: x < 0.1234567, floats),
    "finite": Op(jnp.isfinite, floats),
    "from_int": Op(lambda i: i.astype(jnp.float32) * 0.125, ints),
    "int_square": Op(lambda i: i * i - 1, ints),
    "int_mod": Op(lambda i: i % 3, ints),
    "not": Op(lambda p: ~p, bools),
    "from_bool": Op(lambda p: p.astype(jnp.float32), bools),
    "any": Op(jnp.any, bools),
    "add": Op(lax.add, alike, 2),
    "sub": Op(lax.sub, alike, 2),
    "mul": Op(lax.mul, alike, 2),
    "div": Op(lambda x, y: x / (y * y + 1.0), alike, 2),
    "max2": Op(lambda x, y: jnp.maximum(x, y * 0.7 + 0.0123), alike, 2),
    "pow": Op(lambda x, y: (x * x + 1.0) ** lax.tanh(y), alike, 2),
    "atan2": Op(lambda x, y: jnp.arctan2(x, y * y + 1.0), alike, 2),
    "scale": Op(lambda x, s: x * s, scaling, 2),
    "shift": Op(lambda x, s: x + s, scaling, 2),
    "where": Op(lambda x, y: jnp.where(x > 0.1234567, x, y), alike, 2),
    "dot": Op(lambda x, y: lax.tanh(x @ y), contract, 2),
    "dot_last": Op(lambda x, y: lax.tanh(jnp.einsum("ik,jk->ij", x, y)), contract_last, 2),
    "outer": Op(jnp.outer, lambda x, y: floats(x) and floats(y) and x.ndim == y.ndim == 1, 2),
    "concatenate": Op(lambda x, y: jnp.concatenate([x, y]), stackable, 2),
    "stack": Op(lambda x, y: jnp.stack([x, y]), lambda x, y: alike(x, y) and small(x), 2),
    "choose": Op(lambda x, y: jnp.where(jnp.sum(x) > 0.1234567, x, y), alike, 2),
}


# --- blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """An operation with programs inside.

    Attributes:
        run: it, given its programs and its operands.
        bodies: how many programs.
        gives: what each program has to give, from the avals of the operands; None: one anything.
        inner: the avals each program gets, from those of the operands.
        takes: which operands it takes.
        arity: how many operands.
    """

    run: Callable[..., Any]
    bodies: int = 1
    gives: Callable[[Sequence[Aval]], list[Aval] | None] = lambda avals: None
    inner: Callable[[Sequence[Aval]], list[Aval]] = list
    takes: Callable[..., bool] = lambda *avals: True
    arity: int = 2


def _first(avals: Sequence[Aval]) -> list[Aval]:
    return [avals[0]]


def _scalar(avals: Sequence[Aval]) -> list[Aval]:
    del avals
    return [jax.ShapeDtypeStruct((), jnp.float32)]


def _sliced(aval: Aval) -> Aval:
    return jax.ShapeDtypeStruct(aval.shape[1:], aval.dtype)


def _cond(bodies: Any, x: Any, y: Any) -> Any:
    return lax.cond(jnp.sum(y) > 0.1234567, *bodies, x, y)


def _switch(bodies: Any, x: Any, y: Any) -> Any:
    index = jnp.sum(y > 0.1234567).astype(jnp.int32) % 3
    return lax.switch(index, bodies, x, y)


def _scan(bodies: Any, carry: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        new, y = bodies[0](carry, x)
        return new, y

    return lax.scan(step, carry, xs)


def _scan_const(bodies: Any, carry: Any, const: Any) -> Any:
    def step(carry: Any, _: None) -> Any:
        return bodies[0](carry, const)[0], carry

    return lax.scan(step, carry, None, length=3, reverse=True)


def _unrolled(bodies: Any, carry: Any, const: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, c: bodies[0](c, const)[0], carry)


def _while(bodies: Any, carry: Any, const: Any) -> Any:
    def go_on(state: Any) -> Any:
        return (state[0] < 3) & (jnp.sum(state[1]) < 99.0)

    def body(state: Any) -> Any:
        return state[0] + 1, bodies[0](state[1], const)[0]

    return lax.while_loop(go_on, body, (0, carry))[1]


def _jit(bodies: Any, x: Any, y: Any) -> Any:
    return jax.jit(bodies[0])(x, y)


def _jit_inline(bodies: Any, x: Any, y: Any) -> Any:
    return jax.jit(bodies[0], inline=True)(x, y)


def _remat(bodies: Any, x: Any, y: Any) -> Any:
    return jax.checkpoint(bodies[0])(x, y)


def _remat_policy(bodies: Any, x: Any, y: Any) -> Any:
    policy = jax.checkpoint_policies.save_only_these_names("here")
    return jax.checkpoint(bodies[0], policy=policy)(x, y)


def _wrong_jvp(bodies: Any, x: Any, y: Any) -> Any:
    """The jvp rule is not the derivative: it must be kept to give the same answer."""
    f = jax.custom_jvp(bodies[0])

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        out, tangent = jax.jvp(bodies[0], primals, tangents)
        return out, jax.tree.map(lambda t: 3 * t if t.dtype == jnp.float32 else t, tangent)

    return f(x, y)


def _wrong_vjp(bodies: Any, x: Any, y: Any) -> Any:
    """The vjp rule is not the derivative either."""
    f = jax.custom_vjp(bodies[0])

    def forward(x: Any, y: Any) -> Any:
        return bodies[0](x, y), (x, jnp.tanh(y) if y.dtype == jnp.float32 else y)

    def backward(residuals: Any, cts: Any) -> Any:
        x, y = residuals
        weight = sum(jnp.sum(ct) for ct in cts if ct.dtype == jnp.float32)
        return tuple(weight * z * 5 if z.dtype == jnp.float32 else None for z in (x, y))

    f.defvjp(forward, backward)
    return f(x, y)


def _wrong_vmap(bodies: Any, x: Any, y: Any) -> Any:
    """A vmap rule that is not that of the function, to tell the two apart."""
    f = jax.custom_batching.custom_vmap(bodies[0])

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any, y: Any) -> Any:
        del size
        axes = tuple([0 if flag else None for flag in batched])
        out = jax.vmap(bodies[0], in_axes=axes)(x, y)
        return tuple([each + each for each in out]), (True,) * len(out)

    return f(x, y)


def _wrong_transpose(bodies: Any, x: Any, y: Any) -> Any:
    """A transpose that is not that of the function, to tell the two apart."""
    del bodies
    return jax.custom_derivatives.linear_call(
        lambda y, x: x * y, lambda y, ct: 3.0 * ct * y, jax.lax.stop_gradient(y), x
    )


def _map(bodies: Any, xs: Any, const: Any) -> Any:
    return lax.map(lambda x: bodies[0](x, const), xs)


def _vmap(bodies: Any, xs: Any, const: Any) -> Any:
    return jax.vmap(bodies[0], in_axes=(0, None))(xs, const)


def _grad(bodies: Any, x: Any, y: Any) -> Any:
    return jax.grad(lambda x: bodies[0](x, y)[0])(x)


def _jvp(bodies: Any, x: Any, y: Any) -> Any:
    tangents = jax.jvp(lambda x: bodies[0](x, y), (x,), (jnp.ones_like(x),))[1]
    return [t for t in tangents if t.dtype == jnp.float32]


def _linearize(bodies: Any, x: Any, y: Any) -> Any:
    out, f = jax.linearize(lambda x: bodies[0](x, y)[0], x)
    return out + f(x)


def _solve(bodies: Any, x: Any, y: Any) -> Any:
    del bodies
    matrix = y @ y.T + 2.0 * jnp.eye(y.shape[0], dtype=y.dtype)
    return jax.scipy.sparse.linalg.cg(lambda v: matrix @ v, x, maxiter=3)[0]


BLOCKS: dict[str, Block] = {
    "jit": Block(_jit),
    "jit_inline": Block(_jit_inline),
    "cond": Block(_cond, bodies=2, gives=_first, takes=lambda x, y: floats(y)),
    "switch": Block(_switch, bodies=3, gives=_first, takes=lambda x, y: floats(y)),
    "scan": Block(
        _scan,
        gives=lambda avals: [avals[0], None],
        inner=lambda avals: [avals[0], _sliced(avals[1])],
        takes=lambda carry, xs: xs.ndim > 0,
    ),
    "scan_const": Block(_scan_const, gives=_first),
    "fori": Block(_unrolled, gives=_first),
    "while": Block(_while, gives=_first, takes=lambda carry, const: floats(carry)),
    "map": Block(
        _map,
        inner=lambda avals: [_sliced(avals[0]), avals[1]],
        takes=lambda xs, const: xs.ndim > 0,
    ),
    "vmap": Block(
        _vmap,
        inner=lambda avals: [_sliced(avals[0]), avals[1]],
        takes=lambda xs, const: xs.ndim > 0,
    ),
    "remat": Block(_remat),
    "remat_policy": Block(_remat_policy),
    "custom_jvp": Block(_wrong_jvp),
    "custom_vjp": Block(_wrong_vjp),
    "custom_vmap": Block(_wrong_vmap),
    "linear_call": Block(_wrong_transpose, bodies=0, takes=lambda x, y: floats(x) and alike(x, y)),
    "grad": Block(_grad, gives=_scalar, takes=lambda x, y: floats(x)),
    "jvp": Block(_jvp, takes=lambda x, y: floats(x)),
    "linearize": Block(_linearize, gives=_scalar, takes=lambda x, y: floats(x) and x.ndim == 0),
    "solve": Block(
        _solve,
        bodies=0,
        takes=lambda x, y: matrix(y) and floats(x) and x.shape == y.shape[:1],
    ),
}

NOT_REVERSIBLE = {"while", "fori", "custom_vmap"}
"""What reverse-mode differentiation refuses: loops without a fixed length, fori among them where
its bounds are traced; and functions with a vmap rule."""

NOT_LINEARIZED = {"custom_vmap"}
"""What linearization refuses, too."""

NOT_BATCHED = {"linear_call"}
"""What vmap refuses."""


REFUSED = (TypeError, ValueError, NotImplementedError)
"""How JAX refuses to differentiate what it cannot."""


# --- drawing -------------------------------------------------------------------------------------


def body(
    draw: Draw, avals: Sequence[Aval], gives: list[Aval] | None, size: int, depth: int
) -> Body:
    """A program on values of these avals that gives values of those (None: any one)."""
    env = list(avals)
    steps: list[Step] = []
    for _ in range(draw.pick(range(1, size + 1))):
        step = _step(draw, env, size, depth)
        if step is None:
            continue
        try:
            env += _avals_of(step, env)
        except REFUSED:
            continue  # JAX has no such program: reverse mode through a while loop, above all
        steps.append(step)
    results = []
    for aval in [None] if gives is None else gives:
        fitting = [
            i
            for i, own in enumerate(env)
            if aval is None or (own.shape, own.dtype) == (aval.shape, aval.dtype)
        ][::-1]
        if not fitting:  # the last float, summed to what is asked for
            last = (
                max(i for i, own in enumerate(env) if floats(own)) if any(map(floats, env)) else 0
            )
            steps.append(Step(_reduce_to(env[last], aval), (last,)))
            env += _avals_of(steps[-1], env)
            fitting = [len(env) - 1]
        results.append(draw.pick(fitting))
    return Body(tuple(steps), tuple(results))


def _reduce_to(own: Aval, aval: Aval) -> str:
    if aval.shape != () or not floats(own):
        return "zero" if aval.shape == () else "impossible"
    return "sum"


_DRAWN = tuple(PRIMITIVES)
PRIMITIVES["zero"] = Op(lambda x: jnp.sum(x.astype(jnp.float32)), lambda x: False)


def _step(draw: Draw, env: Sequence[Aval], size: int, depth: int) -> Step | None:
    names = [*_DRAWN, *(list(BLOCKS) * 3 if depth > 0 else [])]
    name = draw.pick(names)
    if name in BLOCKS:
        return _block(draw, name, env, size, depth)
    op = PRIMITIVES[name]
    args = _operands(draw, env, op.arity, op.takes)
    return None if args is None else Step(name, args)


def _operands(
    draw: Draw, env: Sequence[Aval], arity: int, takes: Callable[..., bool]
) -> tuple[int, ...] | None:
    places = range(len(env))
    options: list[tuple[int, ...]]
    if arity == 1:
        options = [(i,) for i in places if takes(env[i])]
    else:
        options = [(i, j) for i in places for j in places if takes(env[i], env[j])]
    return draw.pick(options) if options else None


def _block(draw: Draw, name: str, env: Sequence[Aval], size: int, depth: int) -> Step | None:
    block = BLOCKS[name]
    args = _operands(draw, env, block.arity, block.takes)
    if args is None:
        return None
    avals = [env[i] for i in args]
    inner, gives = block.inner(avals), block.gives(avals)
    bodies = tuple(
        body(draw, inner, gives, max(size - 1, 1), depth - 1) for _ in range(block.bodies)
    )
    return Step(name, args, bodies)


def _avals_of(step: Step, env: Sequence[Aval]) -> list[Aval]:
    args = [env[i] for i in step.args]
    out = jax.eval_shape(functools.partial(_apply_list, step), *args)
    return list(out)


def _apply_list(step: Step, *args: Any) -> list[Any]:
    out = apply(step, list(args))
    return list(out) if isinstance(out, (list, tuple)) else [out]


def has_none_of(names: Collection[str], program: Body) -> bool:
    """Whether no operation of the program, nor of the programs in it, has one of the names."""
    return all(
        step.op not in names and all(has_none_of(names, inner) for inner in step.bodies)
        for step in program.steps
    )
