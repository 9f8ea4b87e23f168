"""A body put together from what stands around its model: as one, however it lies."""

from tidegate.gateway.splice import Around, filled


def joined(around: Around, model: bytes) -> bytes:
    """The whole body with this model."""
    found = filled(around, model)
    return found if isinstance(found, bytes) else b"".join(found)
