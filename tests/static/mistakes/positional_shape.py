"""Classes: The shape given by position."""

from mistakes.right import Zeros


def call() -> object:
    # E[mypy]: call-arg: Too many positional arguments for "Zeros"
    # E[pyright]: reportCallIssue: Expected 0 positional arguments
    return Zeros((3, 4))
