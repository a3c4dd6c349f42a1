"""The examples of "Feedback on API for implicit arrays": symbolic zeros, masks, and both at once.

The code is the document's. What had to change:

* the import: `import typedqax as qax`; its base class and helper functions are the library's now.
* `implicit_op(names)` on a method is `primitive_handler(names)` on a function, whose annotations
  say what being a method of the class said; `params=params` is `**params`, `cls.default_handler`
  is `qax.default_handler`, and the lists ELEMENTWISE_UNOPS, ELEMENTWISE_BINOPS and REDUCTION_OPS
  are groups in `qax.ops`.
* `flatten` and `unflatten` are gone: the annotated fields say it.
* `shape` of an array without a constructor of its own is a keyword, as the second document has it.
* `y` is of integers and `-x` of floats, so JAX converts one: `convert_element_type` is no longer
  among the elementwise functions of one operand, and stands beside them.
* `reduce_sum` has a param that `reduce_and` has not, since JAX has shardings in types: `axes` alone
  is passed on.
* what stands at the level of a module is in a function, so that each test runs its own.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, union-attr"
# The document's handlers are not annotated further, and ask for a class once, in a variable.

from __future__ import annotations

import jax
import jax.numpy as jnp

import typedqax as qax

# --- symbolic zeros ------------------------------------------------------------------------------


class ImplicitZeros(qax.ImplicitArray):
    def materialize(self):
        return jnp.zeros(self.shape, dtype=self.dtype)


@qax.primitive_handler("mul")
def mul(primitive, x: ImplicitZeros, y):
    result = jax.eval_shape((lambda x, y: x * y), *(z.aval for z in (x, y)))
    return ImplicitZeros(shape=result.shape, dtype=result.dtype)


def main() -> None:
    @qax.use_implicit_args
    def f(x, y):
        return jnp.sum(x * y)

    zeros = ImplicitZeros(shape=(2, 3), dtype=jnp.float32)

    result = jax.jit(f)(zeros, jnp.ones(zeros.shape))
    # UserWarning: Primitive reduce_sum was not handled by class ImplicitZeros, so implicit args
    # will be materialized

    assert result == 0


# --- masked array --------------------------------------------------------------------------------


class NullableArray(qax.ImplicitArray):
    val: qax.ArrayValue
    mask: qax.ArrayValue

    def __init__(self, val, mask):
        super().__init__(shape=val.shape, dtype=val.dtype)
        self.val = val
        self.mask = mask

    def materialize(self):
        return self.val


@qax.primitive_handler([qax.ops.elementwise_unary, "convert_element_type"])
def handle_unop(primitive, nullable_val: NullableArray, **params):
    val = qax.default_handler(primitive, nullable_val.val, **params)
    return NullableArray(val, nullable_val.mask)


@qax.primitive_handler(qax.ops.elementwise_binary)
def handle_binop(
    primitive, lhs: NullableArray | jax.Array, rhs: NullableArray | jax.Array, **params
):
    lhs_is_nullable = isinstance(lhs, NullableArray)
    rhs_is_nullable = isinstance(rhs, NullableArray)
    mask = lhs.mask if lhs_is_nullable else None

    if lhs_is_nullable:
        lhs = lhs.val

    if rhs_is_nullable:
        mask = rhs.mask if mask is None else mask & rhs.mask
        rhs = rhs.val

    out_val = qax.default_handler(primitive, lhs, rhs, **params)
    return NullableArray(out_val, mask)


@qax.primitive_handler(qax.ops.reductions)
def handle_reduction(primitive, val: NullableArray, *, axes, **params):
    new_val = qax.default_handler(primitive, val.val, axes=axes, **params)
    new_mask = qax.default_handler(jax.lax.reduce_and_p, val.mask, axes=axes)
    return NullableArray(new_val, new_mask)


def masked_array(three=3) -> None:
    @jax.jit
    @qax.use_implicit_args
    def f(x, y):
        return jnp.sum(-x * y, axis=0)

    x = NullableArray(
        val=jnp.ones((2, 3)),
        mask=jnp.asarray(
            [[True, False, True],
             [False, True, True]]
        )
    )

    y = NullableArray(
        val=jnp.full((2, 3), three),
        mask=jnp.asarray(
            [[False, True, True],
             [True, True, True]]
        )
    )

    output = f(x, y)
    print(f"Result: {output.val}")
    print(f"Mask: {output.mask}")


# --- masked symbolic zero ------------------------------------------------------------------------


def masked_symbolic_zero() -> None:
    @jax.jit
    @qax.use_implicit_args
    def f(x, y):
        return (x * y) + 3

    shape = (2, 3)
    x = NullableArray(
        val=ImplicitZeros(shape=shape, dtype=jnp.float32),
        mask=jnp.asarray(
            [[True, False, True],
             [False, True, True]],
        )
    )

    y = NullableArray(
        val=jnp.ones(shape),
        mask=jnp.asarray(
            [[True, True, True],
             [False, False, True]]
        )
    )

    result = f(x, y)
    print(f"Result:\n{result.val}")
    print(f"Mask:\n{result.mask}")
