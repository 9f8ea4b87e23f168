"""The only reader of environment and config file: one TOML file in, one frozen Settings or every mistake out."""

import os
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidegate.events.config import Settings, Target
from tidegate.events.errors import Refused
from tidegate.runtime import checks
from tidegate.runtime.references import NO_REFERENCE, is_reference
from tidegate.runtime.toml_lines import line_map, line_of
from tidegate.runtime.validation import BAD, Mistake, build

ENVIRONMENT_VARIABLE = "TIDEGATE_CONFIG"
FILE_NAME = "tidegate.toml"
MIN_SECRET_CHARS = 8
"""Shorter ones could not be told from words when they are blotted out of logs."""


class ConfigInvalid(Refused):
    """The config cannot be used; `mistakes` lists every reason as `file:line: path: message`."""

    code = "config_invalid"

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class ConfigFile(NamedTuple):
    """A config file that was read: its text says on which line a mistake stands. With `mistakes`, BAD stands in the
    settings for what could not be read: they are there to be looked at, never to be run."""

    path: Path
    text: str
    settings: Settings
    mistakes: tuple[Mistake, ...] = ()

    def invalid(self, mistakes: Sequence[Mistake]) -> ConfigInvalid:
        """The error that tells these mistakes by name and line."""
        return ConfigInvalid(_located(mistakes, self.text, str(self.path)))


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


def parse_settings(text: str, name: str = FILE_NAME, folder: Path = Path()) -> Settings:
    """Settings of a TOML text, prices of the price book and offsets of time zones filled in. Raises ConfigInvalid with
    every mistake by name and line. A relative `price_file` counts from `folder`.
    """
    return _sound(_examined(text, Path(name), folder)).settings


def examined(path: Path) -> ConfigFile:
    """A config file with everything that is wrong with it and can be told without this machine. Raises ConfigInvalid
    when it cannot be read, is not TOML, or is empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigInvalid([f"{path} cannot be read: {reason}"]) from error
    return _examined(text, path, path.parent)


def read_config(path: Path) -> ConfigFile:
    """A config file with its settings. Raises ConfigInvalid, also when it cannot be read."""
    return _sound(examined(path))


def _sound(file: ConfigFile) -> ConfigFile:
    if file.mistakes:
        raise file.invalid(file.mistakes)
    return file


def _examined(text: str, path: Path, folder: Path) -> ConfigFile:
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid([f"{path}: not valid TOML: {error}"]) from error
    if not plain:
        raise ConfigInvalid([f"{path} is empty: see `tidegate config schema` for what may stand in it"])
    mistakes: list[Mistake] = []
    # All mistakes at once: one that is found here does not hide those that are found in what is right.
    settings: Settings = build(plain, Settings, (), mistakes)
    if settings.price_file is not None or _name_models(settings):
        settings = _with_prices(settings, folder, mistakes)
    settings = _with_time_zones(settings, mistakes)
    mistakes += checks.find_mistakes(settings)
    if not mistakes:
        from tidegate.runtime.pricebook.resolve import with_source

        settings = with_source(settings)
    return ConfigFile(path, text, settings, tuple(mistakes))


def _name_models(settings: Settings) -> bool:
    return settings.targets is not BAD and any(target.price_book is not None for target in settings.targets)


def _with_prices(settings: Settings, folder: Path, mistakes: list[Mistake]) -> Settings:
    """The book is loaded only where a target names a model of it."""
    from tidegate.runtime.pricebook.book import built_in
    from tidegate.runtime.pricebook.entries import ModelPrices, Unreadable
    from tidegate.runtime.pricebook.price_file import read
    from tidegate.runtime.pricebook.resolve import resolved

    before: tuple[ModelPrices, ...] = ()
    if settings.price_file is BAD:
        return resolved(settings, None, mistakes)
    if settings.price_file is not None:
        try:
            before = read(folder / settings.price_file)
        except Unreadable as error:
            mistakes.append(Mistake(("price_file",), str(error)))
            return resolved(settings, None, mistakes)
    return resolved(settings, lambda: built_in(before), mistakes)


def _with_time_zones(settings: Settings, mistakes: list[Mistake]) -> Settings:
    """Time zone data is loaded only where a window has peak hours."""
    pools = () if settings.pools is BAD else settings.pools
    windows = [window for pool in pools if pool.windows is not BAD for window in pool.windows]
    if not any(window.peaks is not BAD and window.peaks for window in windows):
        return settings
    from tidegate.runtime.time_zones import with_offsets

    return with_offsets(settings, mistakes)


def load_settings(path: Path) -> Settings:
    """Settings of a file. Raises ConfigInvalid, also when it cannot be read."""
    return read_config(path).settings


def _located(mistakes: Iterable[Mistake], text: str, name: str) -> list[str]:
    lines = line_map(text)
    ordered = sorted({(line_of(lines, m.path), _dotted(m), m.message) for m in mistakes})
    return [f"{name}:{line}: {path}{message}" for line, path, message in ordered]


def _dotted(mistake: Mistake) -> str:
    text = ""
    for part in mistake.path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return f"{text}: " if text else ""


def secret_bytes(reference: str, env: Mapping[str, str], what: str) -> bytes:
    """What stands behind `env:NAME` or `file:/PATH`. Raises ConfigInvalid naming the reference, never the secret."""
    if not is_reference(reference):
        raise ConfigInvalid([f"{what}: {NO_REFERENCE}"])
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = env.get(name, "")
        if not value:
            raise ConfigInvalid([f"{what}: environment variable {name} is not set or empty"])
        return value.encode("utf-8", "surrogateescape")
    path = Path(name)
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigInvalid([f"{what}: secret file {name} cannot be read"]) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigInvalid([f"{what}: secret file {name} is open to others; chmod 600 it"])
    return content


def resolve_secret(reference: str, env: Mapping[str, str], what: str) -> str:
    """The text behind a reference. Raises ConfigInvalid naming the reference, never the secret."""
    value = secret_bytes(reference, env, what).strip()
    wrong = _wrong_with(value)
    if wrong is not None:
        raise ConfigInvalid([f"{what}: the secret behind {reference} {wrong}"])
    return value.decode("ascii")


def _wrong_with(secret: bytes) -> str | None:
    """Why it cannot be one, in words that tell nothing of it; None when it can."""
    if not secret:
        return "is empty"
    if any(byte < 0x21 or byte > 0x7E for byte in secret):
        return "is not printable: only ASCII without spaces can be sent in a header"
    if len(secret) < MIN_SECRET_CHARS:
        return f"is too short: at least {MIN_SECRET_CHARS} characters"
    return None


def resolve_secrets(targets: Iterable[Target], env: Mapping[str, str]) -> dict[str, str]:
    """The secrets of targets and of their proxies, by reference. Raises ConfigInvalid listing all that are missing."""
    found: dict[str, str] = {}
    mistakes: list[str] = []
    for target in targets:
        for field, reference in (("secret", target.secret), ("proxy_secret", target.proxy_secret)):
            if reference is not None:
                try:
                    found[reference] = resolve_secret(reference, env, f"{field} of target `{target.id}`")
                except ConfigInvalid as error:
                    mistakes += error.mistakes
    if mistakes:
        raise ConfigInvalid(mistakes)
    return found
