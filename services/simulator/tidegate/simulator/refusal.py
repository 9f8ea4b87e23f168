"""The refusal that answers a bad request, whatever its dialect."""


class Refusal(Exception):
    """An error answer before any content.

    `code` and `kind` replace what the dialect derives from the status; `unit` is that of a limit that was hit.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        kind: str | None = None,
        param: str | None = None,
        unit: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.unit = unit
        self.retry_after = retry_after


def invalid(message: str, param: str | None = None) -> Refusal:
    """A 400 that names the field."""
    return Refusal(400, message, param=param)
