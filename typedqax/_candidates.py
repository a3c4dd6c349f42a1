"""An index of signatures by the classes and dtypes of their operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from typedqax._signature import Signature, subclasses


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


class CandidateIndex:
    """Which of many signatures can accept operands of given classes, and which can share a call.

    Both answers are bits by position, and never leave out one that can. An answer takes as many
    steps as there are classes in it, however many signatures there are: this is what keeps a
    thousand handlers on one primitive from being compared half a million times.
    """

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._signatures = tuple(signatures)
        self._floors: dict[int, _Floor] = {}
        self._cones: dict[type, frozenset[type]] = {}
        # Above this arity, all that differs is how often variadic parameters are repeated.
        self._longest = 1 + max((each.fixed_arity for each in signatures), default=0)

    def prepare(self) -> None:
        """Build what the first call of each expected arity needs."""
        for arity in {each.fixed_arity for each in self._signatures}:
            self._floor(arity)

    def taking(self, classes: Sequence[type]) -> int:
        """Those that may accept operands of these classes."""
        arity = len(classes)
        floor = self._floor(arity)
        found = floor.all
        for position, cls in enumerate(classes):
            by_class = floor.by_class[min(position, len(floor.by_class) - 1)]
            here = 0
            for base in cls.__mro__:
                here |= by_class.get(base, 0)
            found &= here
            if not found:
                break
        return found

    def partners(self, place: int) -> int:
        """Those that may share a call with the signature at `place`, itself among them."""
        signature = self._signatures[place]
        found = 0
        for arity in range(self._longest + 1):
            if signature.accepts_arity(arity):
                found |= self._floor(arity).partners(signature, self._cones)
        return found

    def _floor(self, arity: int) -> _Floor:
        arity = min(arity, self._longest)
        floor = self._floors.get(arity)
        if floor is None:
            floor = self._floors[arity] = _Floor(self._signatures, arity)
        return floor


class _Floor:
    """The index for one number of operands."""

    def __init__(self, signatures: Sequence[Signature], arity: int) -> None:
        self.all = 0
        self.by_class: list[dict[type, int]] = [{} for _ in range(arity)]
        self.by_dtype: list[dict[int, int]] = [{} for _ in range(arity)]
        self._memo: dict[tuple[int, frozenset[type]], int] = {}
        for place, signature in enumerate(signatures):
            if not signature.accepts_arity(arity):
                continue
            bit = 1 << place
            self.all |= bit
            for position in range(arity):
                by_class, by_dtype = self.by_class[position], self.by_dtype[position]
                for cls in signature.classes_at(position):
                    by_class[cls] = by_class.get(cls, 0) | bit
                dtypes = signature.dtypes_at(position)
                by_dtype[dtypes] = by_dtype.get(dtypes, 0) | bit

    def partners(self, signature: Signature, cones: dict[type, frozenset[type]]) -> int:
        found = self.all
        for position in range(len(self.by_class)):
            classes = signature.classes_at(position)
            key = (position, classes)
            here = self._memo.get(key)
            if here is None:
                here = self._memo[key] = self._sharing_class(position, classes, cones)
            found &= here
            dtypes = signature.dtypes_at(position)
            alike = 0
            for other, places in self.by_dtype[position].items():
                if other & dtypes:
                    alike |= places
            found &= alike
            if not found:
                break
        return found

    def _sharing_class(
        self, position: int, classes: frozenset[type], cones: dict[type, frozenset[type]]
    ) -> int:
        """Those whose operand at `position` can be of a class derived from one of `classes`."""
        by_class = self.by_class[position]
        found = 0
        for root in classes:
            cone = cones.get(root)
            if cone is None:
                cone = cones[root] = _cone(root)
            for cls in cone:
                for base in cls.__mro__:
                    found |= by_class.get(base, 0)
        return found


def _cone(root: type) -> frozenset[type]:
    """`root` and all classes that derive from it at this moment."""
    cone: set[type] = {root}
    todo: list[type] = [root]
    while todo:
        for cls in subclasses(todo.pop()):
            if cls not in cone:
                cone.add(cls)
                todo.append(cls)
    return frozenset(cone)
