"""Whether a client's body is UTF-8 throughout: what is passed on unparsed is read by the provider only. Pure."""

import codecs

_PIECE_BYTES = 65_536
_decoder = codecs.getincrementaldecoder("utf-8")


def fault_at(raw: bytes) -> int | None:
    """Offset of the first byte that is no UTF-8, None where there is none. Never holds more than a piece decoded."""
    if raw.isascii():  # most bodies; many times as fast
        return None
    decoder, view, at, held = _decoder(), memoryview(raw), 0, 0
    try:
        for at in range(0, len(raw), _PIECE_BYTES):
            held = len(decoder.getstate()[0])  # of a character that began in the piece before
            decoder.decode(view[at : at + _PIECE_BYTES], at + _PIECE_BYTES >= len(raw))
    except UnicodeDecodeError as error:
        return at - held + error.start
    return None
