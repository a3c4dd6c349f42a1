"""Origin: where something was defined, and in which run of its definition."""

from __future__ import annotations

import itertools
import sys
import types
from dataclasses import dataclass

_serials = itertools.count()


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written."""

    file: str
    line: int

    @classmethod
    def of(cls, function: object) -> Place | None:
        """Where a function was written; None where that is not in Python."""
        code = getattr(function, "__code__", None)
        return None if code is None else cls(code.co_filename, code.co_firstlineno)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Which definition something comes from, to tell a second run of it from a second one.

    Attributes:
        module: the module's name.
        qualname: the qualified name in it.
        place: where it was written.
        code: the code object of the definition; the same one for all that a loop or a factory
            makes, a new one when a module or a notebook cell runs again.
        run: the module's spec, which `importlib.reload` makes anew; None in a notebook, a
            script and the like.
        serial: a later one has a greater number.
    """

    module: str
    qualname: str
    place: Place
    code: types.CodeType | None
    run: object
    serial: int

    @classmethod
    def of(cls, module: str, qualname: str, place: Place, code: types.CodeType | None) -> Origin:
        """The origin of what is being defined now."""
        run = getattr(sys.modules.get(module), "__spec__", None)
        return cls(module, qualname, place, code, run, next(_serials))

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.module.partition(".")[0]

    def supersedes(self, earlier: Origin) -> bool:
        """Whether this is the definition `earlier` come again: a cell run twice, a reload.

        Two functions of one name in one run of a module are two handlers (many call all of
        theirs `_`), and so are those that a factory makes.
        """
        if (self.module, self.qualname) != (earlier.module, earlier.qualname):
            return False
        if self.serial <= earlier.serial or self.code is earlier.code:
            return False
        if self.place == earlier.place or self.run is not earlier.run:
            return True
        # A notebook compiles each cell as a file of its own, so the same name from another
        # "file" of one module is an edited cell, unless the name is nobody's.
        anonymous = self.qualname.rpartition(".")[2] in ("_", "<lambda>")
        return self.run is None and self.place.file != earlier.place.file and not anonymous
