"""A dry run: nothing is computed unless Python asks, and what it asks for is what it would get."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from typedqax._dry_run import SMALL, DryTracer, dry_run

SMALL_ONE = jnp.arange(4.0)
LARGE = jnp.arange(SMALL + 1.0)


def seen_by(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `function` gives in a dry run."""
    seen: list[Any] = []

    def keep(*args: Any, **kwargs: Any) -> None:
        seen.append(function(*args, **kwargs))

    dry_run(keep, args, kwargs)
    (result,) = seen
    return result


# --- nothing is computed -------------------------------------------------------------------------


def test_nothing_is_compiled_or_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    impl = jax.lax.sin_p.impl

    def counted(*args: Any, **kwargs: Any) -> Any:
        computed.append(1)
        return impl(*args, **kwargs)

    monkeypatch.setattr(jax.lax.sin_p, "impl", counted)

    def model(x: Array, y: Array) -> Array:
        zeros = jnp.zeros((3, SMALL))
        total: Array = jnp.sin(x).sum() + jnp.sin(y).sum() + lax.sin(zeros).sum()
        return total

    dry_run(model, (SMALL_ONE, LARGE), {})
    assert computed == []
    assert jax.lax.sin_p.bind(SMALL_ONE, accuracy=None).shape == (4,)
    assert computed == [1]


def kind(array: Array) -> tuple[Any, ...]:
    return array.shape, array.dtype


def test_shapes_and_dtypes_are_those_of_the_run() -> None:
    x, y = jnp.ones((40, 50)), jnp.ones((50, 60))
    found = seen_by(lambda x, y: (kind(x @ y), kind(x.sum(axis=0) > 1)), x, y)
    assert found == (((40, 60), jnp.float32), ((50,), jnp.bool_))


def test_a_structure_without_numbers_is_an_argument_like_any_other() -> None:
    structure = jax.ShapeDtypeStruct((2,), jnp.float32)
    assert seen_by(lambda x: kind(x + 1), structure) == ((2,), jnp.float32)


def test_what_is_small_or_no_array_is_passed_as_it_is() -> None:
    args = (SMALL_ONE, np.ones(3), 2, "mode", None, [1.5])
    found = seen_by(lambda *a: a, *args)
    assert all(a is b for a, b in zip(found[:5], args[:5], strict=True))
    assert found[5] == args[5]


# --- what Python asks for ------------------------------------------------------------------------

ASKED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "bool": (lambda x: bool((x * 2).sum() > 3), True),
    "int": (lambda x: int(x.sum()), 6),
    "float": (lambda x: float(jnp.sqrt(x[1] + x[3])), 2.0),
    "complex": (lambda x: complex(x[3]), 3 + 0j),
    "index": (lambda x: "abcd"[x[2].astype(int)], "c"),
    "format": (lambda x: f"{x.sum():.2f}", "6.00"),
    "item": (lambda x: (x + 1).sum().item(), 10.0),
    "item of several": (lambda x: (x + 1).item(2), 3.0),
    "tolist": (lambda x: (x[:2] * 3).tolist(), [0.0, 3.0]),
    "numpy": (lambda x: np.asarray(x + 1).sum(), 10.0),
    "mask": (lambda x: x[x > 1].shape, (2,)),
    "nonzero": (lambda x: jnp.nonzero(x)[0].shape, (3,)),
    "loop": (lambda x: [float(each) for each in x[1:] if each > 1], [2.0, 3.0]),
    "wait": (lambda x: float((x + 1).block_until_ready()[0]), 1.0),
    "under jit before": (lambda x: float(jax.jit(jnp.sum)(x)), 6.0),
    "of a custom derivative": (lambda x: float(jax.nn.relu(x - 2).sum()), 1.0),
    "of a scan": (lambda x: float(lax.scan(lambda c, y: (c + y, None), 0.0, x)[0]), 6.0),
    "in grad": (lambda x: float(jax.grad(lambda y: y * y if y > 1 else y)(x[3])), 6.0),
    "of its own arrays": (lambda _: bool(jnp.arange(3)[2] == 2), True),
    "of a key": (lambda _: int(jax.random.randint(jax.random.key(0), (), 3, 4)), 3),
    "of a ref": (lambda x: jax.new_ref(x)[...].shape, (4,)),
    "of a long chain": (
        lambda x: float(functools.reduce(lambda y, _: y + 1, range(1200), x[0])),
        1200.0,
    ),
}


@pytest.mark.parametrize(("function", "want"), ASKED.values(), ids=ASKED.keys())
def test_python_gets_the_numbers_that_are_known(function: Any, want: Any) -> None:
    assert seen_by(function, SMALL_ONE) == want


UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "bool": lambda y: 1 if y.sum() > 3 else 2,
    "float": lambda y: float(y[0]),
    "complex": lambda y: complex(y[0]),
    "int": lambda y: int(y[0]),
    "numpy": np.asarray,
    "tolist": lambda y: y.tolist(),
    "item": lambda y: y[0].item(),
    "mask": lambda y: y[y > 1],
    "in grad": lambda y: jax.grad(lambda z: z[0] * z[0] if z[0] > 1 else z[1])(y),
}


@pytest.mark.parametrize("function", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_not_known_is_an_error_of_jax_that_names_the_argument(function: Any) -> None:
    with pytest.raises((TypeError, IndexError)) as caught:
        dry_run(lambda *, x: function(x["w"]), (), {"x": {"w": LARGE}})
    assert type(caught.value).__module__ == "jax.errors"
    notes = "\n".join(caught.value.__notes__)
    assert "arguments of more than 1024 elements" in notes
    assert "depend on x['w']." in notes


def test_an_error_that_a_jitted_function_would_have_anyway_gets_no_advice() -> None:
    def own_mistake(x: Array) -> Array:
        result: Array = jax.jit(lambda y: y if y > 1 else -y)(x)
        return result

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        dry_run(own_mistake, (jnp.float32(3),), {})
    assert "typedqax" not in "\n".join(getattr(caught.value, "__notes__", []))


# --- around it -----------------------------------------------------------------------------------


def test_what_the_function_raises_comes_out_and_nothing_stays_behind() -> None:
    def fails(x: Array) -> Array:
        y = x + 1
        raise KeyError(y.shape)

    for _ in range(2):
        with pytest.raises(KeyError, match=r"\(4,\)"):
            dry_run(fails, (SMALL_ONE,), {})
        assert not isinstance(SMALL_ONE + 1, DryTracer)


def test_a_value_of_a_transformation_around_it_is_not_known() -> None:
    def outer(x: Array) -> Array:
        dry_run(lambda y: bool(y > 1), (x,), {})
        return x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(outer)(jnp.float32(2))


def test_a_closed_over_value_of_a_transformation_around_it_is_not_known() -> None:
    def outer(x: Array) -> Array:
        dry_run(lambda: bool(x + 1 > 1), (), {})
        return x

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jax.jit(outer)(jnp.float32(2))
    assert "a value of the transformation around it" in "\n".join(caught.value.__notes__)


def test_dry_runs_nest_and_run_in_threads() -> None:
    def inner(x: Array) -> float:
        return float(x.sum())

    assert seen_by(lambda x: (seen_by(inner, SMALL_ONE), float(x[1])), SMALL_ONE) == (6.0, 1.0)
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda: found.append(seen_by(inner, SMALL_ONE))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [6.0] * 3


def test_a_shard_map_is_part_of_it() -> None:
    mesh = jax.make_mesh((1,), ("i",))
    spec = jax.sharding.PartitionSpec()
    mapped: Any = jax.shard_map(lambda y: y + 1, mesh=mesh, in_specs=spec, out_specs=spec)
    assert seen_by(lambda x: (mapped(x) * 2).shape, LARGE) == LARGE.shape


def test_writing_to_a_ref_is_not_done() -> None:
    ref = jax.new_ref(jnp.zeros(3))

    def write(x: Array) -> None:
        ref[0] = x[0]

    dry_run(write, (SMALL_ONE + 1,), {})
    assert ref[...].tolist() == [0.0, 0.0, 0.0]
