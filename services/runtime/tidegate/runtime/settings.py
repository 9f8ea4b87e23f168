"""The only reader of environment and config file: one TOML file in, one frozen Settings or every mistake out."""

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tidegate.events.config import Settings, Target
from tidegate.events.errors import Refused
from tidegate.events.types import TargetId
from tidegate.runtime import checks
from tidegate.runtime.toml_lines import line_map, line_of
from tidegate.runtime.validation import BAD, Mistake, build

ENVIRONMENT_VARIABLE = "TIDEGATE_CONFIG"
FILE_NAME = "tidegate.toml"
_MIN_SECRET_CHARS = 8


class ConfigInvalid(Refused):
    """The config cannot be used; `mistakes` lists every reason as `file:line: path: message`."""

    code = "config_invalid"

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


def environment() -> Mapping[str, str]:
    """The process environment, read in this one place."""
    return os.environ  # noqa: TID251


def find_config(given: Path | None, env: Mapping[str, str], cwd: Path, home: Path) -> Path:
    """The config file: `--config`, environment, working folder, user folder. Raises ConfigInvalid."""
    if given is not None:
        return given
    if env.get(ENVIRONMENT_VARIABLE):
        return Path(env[ENVIRONMENT_VARIABLE])
    tried = [cwd / FILE_NAME, home / ".config" / "tidegate" / FILE_NAME]
    for path in tried:
        if path.is_file():
            return path
    places = ", ".join(str(path) for path in tried)
    raise ConfigInvalid(
        [f"no config: give --config FILE, set {ENVIRONMENT_VARIABLE}, or write one of {places}"]
    )


def parse_settings(text: str, name: str = FILE_NAME) -> Settings:
    """Settings of a TOML text. Raises ConfigInvalid with every mistake by name and line."""
    if not text.strip():
        raise ConfigInvalid([f"{name} is empty: see `tidegate config schema` for what may stand in it"])
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid([f"{name}: not valid TOML: {error}"]) from error
    mistakes: list[Mistake] = []
    settings = build(plain, Settings, (), mistakes)
    if settings is not BAD and not mistakes:
        mistakes = checks.find_mistakes(settings)
    if mistakes:
        lines = line_map(text)
        ordered = sorted((line_of(lines, m.path), _dotted(m), m.message) for m in mistakes)
        raise ConfigInvalid([f"{name}:{line}: {path}{message}" for line, path, message in ordered])
    assert isinstance(settings, Settings)  # noqa: S101 - for the type checkers; BAD came with mistakes
    return settings


def load_settings(path: Path) -> Settings:
    """Settings of a file. Raises ConfigInvalid, also when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigInvalid([f"{path} cannot be read: {reason}"]) from error
    return parse_settings(text, str(path))


def _dotted(mistake: Mistake) -> str:
    text = ""
    for part in mistake.path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return f"{text}: " if text else ""


def resolve_secret(reference: str, env: Mapping[str, str], what: str) -> str:
    """The secret behind `env:NAME` or `file:PATH`. Raises ConfigInvalid naming the reference, never the secret."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = env.get(name, "")
        if not value:
            raise ConfigInvalid([f"{what}: environment variable {name} is not set or empty"])
    else:
        path = Path(name)
        try:
            mode = path.stat().st_mode
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigInvalid([f"{what}: secret file {name} cannot be read"]) from error
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigInvalid([f"{what}: secret file {name} is open to others; chmod 600 it"])
    if len(value) < _MIN_SECRET_CHARS or any(ord(char) < 0x21 or ord(char) > 0x7E for char in value):
        raise ConfigInvalid(
            [f"{what}: the secret behind {reference} is empty, too short or not printable ASCII"]
        )
    return value


def resolve_secrets(targets: tuple[Target, ...], env: Mapping[str, str]) -> dict[TargetId, str]:
    """Every target's secret. Raises ConfigInvalid listing all that are missing."""
    found: dict[TargetId, str] = {}
    mistakes: list[str] = []
    for target in targets:
        if target.secret is not None:
            try:
                found[target.id] = resolve_secret(target.secret, env, f"target `{target.id}`")
            except ConfigInvalid as error:
                mistakes += error.mistakes
    if mistakes:
        raise ConfigInvalid(mistakes)
    return found
