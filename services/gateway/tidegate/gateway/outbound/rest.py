"""The part of a long request that was not yet handed to its socket. Pure."""

Pieces = tuple[bytes | memoryview, ...]
"""Parts of one body, in order."""
SLICE_BYTES = 128 * 1024
"""What is handed over at once: TLS and the loop copy it, and hold the copy until the peer took it."""


class Rest:
    """Gives out slices of the pieces, without copying any; holds on to no piece that was given out."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: Pieces = ()) -> None:
        self._pieces = [memoryview(piece) for piece in reversed(pieces) if len(piece)]

    @property
    def is_over(self) -> bool:
        """True once all was given out."""
        return not self._pieces

    def take(self) -> memoryview:
        """The next slice. Raises IndexError once all was given out."""
        piece = self._pieces.pop()
        if len(piece) > SLICE_BYTES:
            self._pieces.append(piece[SLICE_BYTES:])
        return piece[:SLICE_BYTES]
