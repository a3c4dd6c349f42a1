"""The flow of a program: order, scopes, and rounds that repeat."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from typedqax._flow import Scope, Step, flow


def of(text: str) -> Scope[str]:
    """The flow of `a/b:x` and the like: scopes, and what happens in them."""
    events = []
    for event in text.split():
        scope, _, what = event.rpartition(":")
        events.append((scope.split("/") if scope else [], what))
    return flow(events)


def shown(scope: Scope[str]) -> str:
    """The flow in short: `2x`, and `3*name(...)`."""
    parts = []
    for part in scope.parts:
        if isinstance(part, Step):
            parts.append(f"{part.count if part.count > 1 else ''}{part.what}")
        else:
            times = f"{part.times}*" if part.times > 1 else ""
            parts.append(f"{times}{part.name.replace(' ', '')}({shown(part)})")
    return " ".join(parts)


CASES = {
    "nothing": ("", ""),
    "in order": ("x y x", "x y x"),
    "the same in a row": ("x x x y", "3x y"),
    "a round": ("x y x y x y z", "3*(x y) z"),
    "a round of rounds": ("x x y x x y", "2*(2x y)"),
    "scopes": ("a:x a:y b:x", "a(x y) b(x)"),
    "a scope that is left and entered again": ("a:x y a:x", "a(x) y a(x)"),
    "numbered scopes": ("h/0:x h/0:y h/1:x h/1:y", "h(2*0…1(x y))"),
    "numbered scopes that differ": ("h/0:x h/1:y", "h(0(x) 1(y))"),
    "nested alone": ("a/b/c:x", "a/b/c(x)"),
    "nested with others": ("a:y a/b/c:x", "a(y b/c(x))"),
    "layers with parts": (
        "l0/attn:x l0/mlp:y l1/attn:x l1/mlp:y l2/attn:x l2/mlp:y",
        "3*l0…l2(attn(x) mlp(y))",
    ),
    "one scope twice": ("a:x b:y a:x b:y", "2*(a(x) b(y))"),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES.keys())
def test_what_repeats_stands_once(text: str, want: str) -> None:
    assert shown(of(text)) == want


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_made_up(seed: int) -> None:
    rng = random.Random(seed)
    events = [
        ([rng.choice("ab0123") for _ in range(rng.randrange(3))], rng.choice("xy"))
        for _ in range(60)
    ]
    counted: Counter[str] = Counter()
    for what, count in flow(events).steps():
        counted[what] += count
    assert counted == Counter(what for _, what in events)
