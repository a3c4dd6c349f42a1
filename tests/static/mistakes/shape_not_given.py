"""Classes: No shape, where nothing else tells it."""

from mistakes.right import Zeros


def call() -> object:
    return Zeros().shape
