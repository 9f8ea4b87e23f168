"""The admin listener's credential: who serves it makes it, who asks reads it."""

import secrets

from tidegate.runtime.machine import Machine
from tidegate.runtime.made_once import make_once
from tidegate.runtime.ready import MIN_TOKEN_CHARS
from tidegate.runtime.settings import ConfigInvalid, resolve_secret


def admin_token(machine: Machine) -> str:
    """The admin credential: the configured secret, else one made at first start in `admin.token`.

    Raises ConfigInvalid when it is too short to be one: an empty file must not open the admin listener.
    """
    reference = machine.settings.admin.token
    if reference is not None:
        token, where = resolve_secret(reference, machine.env, "admin token"), reference
    else:
        path = machine.admin_token_path
        make_once(path, secrets.token_urlsafe(32).encode())
        token, where = path.read_text().strip(), f"{path}: delete the file, and admin makes a new one"
    if len(token) < MIN_TOKEN_CHARS:
        raise ConfigInvalid([f"admin token: fewer than {MIN_TOKEN_CHARS} characters behind {where}"])
    return token
