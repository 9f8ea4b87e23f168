"""State of many series as one column each: the struct of arrays under every model."""

from typing import ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NS_PER_MS = 1_000_000
_Cell = TypeVar("_Cell", np.float64, np.int64)
_Number = TypeVar("_Number", float, int)


class Table(Generic[_Cell, _Number]):
    """`data[field, series]`. Every stored number is finite, so a row survives JSON bit by bit.

    `take` copies columns out, `put` writes them back: a model computes on contiguous copies with elementwise
    operations only, which is why a result does not depend on which series share a call.
    """

    FIELDS: ClassVar[tuple[str, ...]]
    PRIOR: ClassVar[tuple[float, ...]]

    def __init__(self, cell: type[_Cell], size: int) -> None:
        self.size = 0
        self._prior: npt.NDArray[_Cell] = np.array(self.PRIOR, dtype=cell)[:, None]
        self.data: npt.NDArray[_Cell] = np.repeat(self._prior, max(size, 1), axis=1)
        self.ensure(size)

    def ensure(self, size: int) -> None:
        """Make room for series 0 … size-1, at least doubling; new ones start at the declared prior."""
        capacity = self.data.shape[1]
        if size > capacity:
            blank = np.repeat(self._prior, max(size - capacity, capacity), axis=1)
            self.data = np.concatenate((self.data, blank), axis=1)
        self.size = max(self.size, size)

    def take(self, idx: IntArray) -> npt.NDArray[_Cell]:
        """A copy (fields, len(idx)) of the columns of `idx`."""
        return np.take(self.data, idx, axis=1)

    def put(self, idx: IntArray, block: npt.NDArray[_Cell]) -> None:
        """Write columns back; `idx` must be unique."""
        self.data[:, idx] = block

    def row(self, i: int) -> list[_Number]:
        """The state of series `i`, in the order of FIELDS."""
        numbers: list[_Number] = self.data[:, i].tolist()
        return numbers

    def load(self, i: int, numbers: list[_Number]) -> None:
        """Restore what `row` gave. Raises ValueError when it does not fit FIELDS."""
        if len(numbers) != len(self.FIELDS):
            raise ValueError(
                f"{type(self).__name__} state has {len(numbers)} numbers, needs {len(self.FIELDS)}"
            )
        self.ensure(i + 1)
        self.data[:, i] = numbers


class Columns(Table[np.float64, float]):
    """A table of float64 states."""

    def __init__(self, size: int = 0) -> None:
        super().__init__(np.float64, size)


class IntColumns(Table[np.int64, int]):
    """A table of exact integers."""

    def __init__(self, size: int = 0) -> None:
        super().__init__(np.int64, size)


def milliseconds(at_ns: IntArray) -> FloatArray:
    """Whole milliseconds of nanosecond timestamps: exact in float64 for 285,000 years."""
    return (at_ns // NS_PER_MS).astype(np.float64)
