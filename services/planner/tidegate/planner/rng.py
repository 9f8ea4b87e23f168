"""Integer random numbers with the same bits on every machine: SplitMix64 (Steele, Lea, Flood 2014). Pure."""

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


class SplitMix64:
    """A stream of 64-bit integers from a seed; gives every decision the seed it records."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """The next integer, 0 ≤ n < 2⁶⁴."""
        self._state = z = (self._state + _GAMMA) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def next_seed(self) -> int:
        """The next seed, 0 ≤ n < 2⁶³: fits a signed column."""
        return self.next() >> 1
