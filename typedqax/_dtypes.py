"""DtypeSet: a set of dtype names as one int, with a bit for each name ever met."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import TypeAlias

# A negative int is a set that also holds every name not met yet: ANY_DTYPE is all of them.
DtypeSet: TypeAlias = int
ANY_DTYPE: DtypeSet = -1

_SHORT = {
    "float": "f",
    "bfloat": "bf",
    "int": "i",
    "uint": "u",
    "complex": "c",
}

# In the order in which an example should prefer them.
_KNOWN = [
    "float32",
    "int32",
    "bool",
    "bfloat16",
    "float16",
    "float64",
    "complex64",
    "int8",
    "uint8",
    "uint32",
    "int64",
    "complex128",
    "uint64",
    "int16",
    "uint16",
    "int4",
    "uint4",
    "int2",
    "uint2",
    "int1",
    "uint1",
    "prng_key",
    "float0",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]

_lock = threading.Lock()
_names: list[str] = list(_KNOWN)
_bits: dict[str, int] = {name: i for i, name in enumerate(_names)}
_bits["bool_"] = _bits["bool"]
_bits["[('float0', 'V')]"] = _bits["float0"]  # what jaxtyping calls it


def dtype_bit(name: str) -> int:
    """The place of a dtype in every DtypeSet; a name never met before gets the next one."""
    bit = _bits.get(name)
    if bit is not None:
        return bit
    with _lock:
        if name not in _bits:
            if name.startswith("key<"):
                _bits[name] = _bits["prng_key"]
            else:
                _names.append(name)
                _bits[name] = len(_names) - 1
        return _bits[name]


def dtype_set(names: Iterable[str | re.Pattern[str]]) -> DtypeSet:
    """The set of the given names; a regular expression stands for the known names it matches."""
    mask = 0
    for name in names:
        if isinstance(name, str):
            mask |= 1 << dtype_bit(name)
        else:
            for known in list(_bits):
                if name.match(known):
                    mask |= 1 << _bits[known]
    return mask


def some_dtype(mask: DtypeSet) -> str:
    """The first dtype of a non-empty set, a common one if there is any."""
    bit = (mask & -mask).bit_length() - 1
    return _names[bit] if bit < len(_names) else "another_dtype"


def dtype_atoms(masks: Iterable[DtypeSet]) -> list[DtypeSet]:
    """One single-dtype set for each way in which a dtype can be in some masks and not others."""
    masks = list(masks)
    seen: dict[tuple[bool, ...], DtypeSet] = {}
    for bit in range(len(_names) + 1):
        key = tuple(bool(mask >> bit & 1) for mask in masks)
        seen.setdefault(key, 1 << bit)
    return list(seen.values())


def short_name(dtype: str) -> str:
    """A dtype as JAX prints it: `f32`, `bf16`, `i8`, `bool`, `key<fry>`."""
    match = re.fullmatch(r"(bfloat|float|uint|int|complex)(\d+)(_?\w*)", dtype)
    if match is None or dtype == "float0":
        return dtype
    kind, bits, rest = match.groups()
    return f"{_SHORT[kind]}{bits}{rest}"


_UINTS = ["uint2", "uint4", "uint8", "uint16", "uint32", "uint64"]
_INTS = ["int2", "int4", "int8", "int16", "int32", "int64"]
_FLOATS = [
    "float4_e2m1fn",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "bfloat16",
    "float16",
    "float32",
    "float64",
]
_COMPLEXES = ["complex64", "complex128"]

CATEGORIES: dict[str, DtypeSet] = {
    "Shaped": ANY_DTYPE,
    "Bool": dtype_set(["bool"]),
    "UInt": dtype_set(_UINTS),
    "Int": dtype_set(_INTS),
    "Integer": dtype_set(_UINTS + _INTS),
    "Float": dtype_set(_FLOATS),
    "Complex": dtype_set(_COMPLEXES),
    "Inexact": dtype_set(_FLOATS + _COMPLEXES),
    "Real": dtype_set(_FLOATS + _UINTS + _INTS),
    "Num": dtype_set(_UINTS + _INTS + _FLOATS + _COMPLEXES),
    "Key": dtype_set(["prng_key"]),
    **{
        name[0].upper() + name[1:].replace("_", ""): dtype_set([name])
        for name in _UINTS + _INTS + _FLOATS + _COMPLEXES
    },
    **{"UInt" + name[4:]: dtype_set([name]) for name in _UINTS},
    "BFloat16": dtype_set(["bfloat16"]),
}
"""The dtype categories of jaxtyping, by name."""


def category_name(mask: DtypeSet) -> str | None:
    """The name of the category that is exactly this set."""
    return _NAMES.get(mask)


_NAMES = {mask: name for name, mask in CATEGORIES.items()}
