"""How a config names a secret: by environment variable or by file, never by the secret itself. Pure."""

import re

NO_REFERENCE = "a secret is a reference, `env:NAME` or `file:/PATH`, never the secret itself"
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+", re.DOTALL)


def is_reference(text: str) -> bool:
    """Whether this names a secret, by variable or absolute path, rather than being one."""
    return _REFERENCE.fullmatch(text) is not None
