"""The modules of packages, imported one by one, and what their imports raise."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from typedqax._errors import UsageError, shortened
from typedqax._findings import Finding


@dataclass(frozen=True, slots=True)
class Failure:
    """A module whose import raised.

    Attributes:
        module: its name.
        error: what it raised.
    """

    module: str
    error: BaseException


def import_packages(names: Sequence[str]) -> tuple[list[str], list[Failure]]:
    """The modules of these packages, each imported, and those of them whose import failed.

    Raises:
        UsageError: there is no such package.
    """
    for name in names:
        _must_exist(name)
    modules: dict[str, None] = {}
    failures: dict[str, Failure] = {}
    for name in names:
        for module, error in _imported(name):
            modules[module] = None
            if isinstance(error, ModuleNotFoundError) and error.name == name:
                raise UsageError(f"there is no module {name!r}{_meant(name)}")
            if error is not None:
                failures.setdefault(module, Failure(module, error))
    return list(modules), list(failures.values())


def _must_exist(name: str) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is no module's name{_meant(name)}")
    top = name.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        raise UsageError(f"there is no package or module {top!r} on the path{_meant(name)}")


def _meant(name: str) -> str:
    """A question whether a module was meant, where `name` is that of a file or folder."""
    parts = name.removesuffix(".py").replace("\\", "/").strip("/").split("/")
    hint = ".".join(part for part in parts if part != ".").removesuffix(".__init__")
    usable = hint != name and all(part.isidentifier() for part in hint.split("."))
    return f"; did you mean {hint!r}?" if usable else ""


def _imported(name: str) -> Iterator[tuple[str, BaseException | None]]:
    """Each module of a package after its import, with what that raised."""
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt as error:
        error.add_note(f"while importing {name}")
        raise
    except BaseException as error:  # noqa: BLE001  # SystemExit, pytest's Skipped: all are findings
        yield name, error
        return
    yield name, None
    for inner in _inner_modules(module):
        yield from _imported(f"{name}.{inner}")


def _inner_modules(module: ModuleType) -> list[str]:
    """The names of the modules in a package, sorted, but for `__main__`, which runs when imported.

    In a namespace package, folders of Python files are packages too, as Python imports them.
    """
    folders = list(getattr(module, "__path__", ()))
    found = {each.name for each in pkgutil.iter_modules(folders)} - {"__main__"}
    if getattr(module, "__file__", None) is None:
        found.update(
            folder.name
            for path in folders
            for folder in Path(path).iterdir()
            if folder.name.isidentifier() and any(folder.rglob("*.py"))
        )
    return sorted(found)


# --- findings ------------------------------------------------------------------------------------


def failed_imports(failures: Iterable[Failure]) -> Iterator[Finding]:
    """A finding for each error that imports raised, at the line of the package that it came from.

    One that several modules meet, since they import one another, is found once.
    """
    alike: dict[tuple[str, int, str], list[str]] = defaultdict(list)
    for failure in failures:
        file, line = _place_of(failure)
        said = shortened(str(failure.error).partition("\n")[0], 300)
        text = f"{type(failure.error).__name__}: {said}".rstrip(": .")
        alike[file, line, text].append(failure.module)
    for (file, line, text), modules in alike.items():
        packages = frozenset(module.partition(".")[0] for module in modules)
        first, *others = (f"`{module}`" for module in modules)
        too = f" (and so {', '.join(others[:3])}{', ...' if len(others) > 3 else ''})"
        whole = (
            f"importing {first}{too if others else ''} fails: {text}; "
            "nothing else in it can be checked"
        )
        yield Finding(file, line, "import", whole, packages=packages)


def _place_of(failure: Failure) -> tuple[str, int]:
    """The innermost line of the package that the error came through."""
    error, top = failure.error, failure.module.partition(".")[0]
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno or 1
    place = (_home(top), 1)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_of(frame.f_code.co_filename, [top]):
            place = (frame.f_code.co_filename, line)
    return place


def is_of(file: str, roots: Iterable[str]) -> bool:
    """Whether a file belongs to one of these top-level packages or modules."""
    return any(
        Path(file) == home or (home.name == "__init__.py" and home.parent in Path(file).parents)
        for home in (Path(_home(root)) for root in roots)
    )


def _home(root: str) -> str:
    """The file of a top-level package or module; of one without a file, an `__init__.py`."""
    spec = importlib.util.find_spec(root)
    if spec is None:
        return root
    folders = list(spec.submodule_search_locations or ())
    return spec.origin or (str(Path(folders[0]) / "__init__.py") if folders else root)
