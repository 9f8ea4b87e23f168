"""Plain TOML values → Settings, collecting every mistake instead of stopping at the first. Pure."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import wraps
from types import UnionType
from typing import Annotated, Any, NamedTuple, ParamSpec, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from tidegate.events.money import NANOUSD_PER_USD
from tidegate.runtime.toml_lines import Path

_MAX_DIGITS = 18
_LEAST_NANOUSD = 1_000_000
"""A tenth of a cent. Smaller bare numbers are rather dollars, which would be too cheap by a factor of 10⁹."""
_EXACT = Context(prec=64, traps=[InvalidOperation, Overflow, Inexact])
_NEVER_SHOWN = frozenset(
    {"secret", "proxy_secret", "token", "password", "data_key", "digest", "base_url", "proxy", "bootstrap"}
)
"""A mistyped secret must not be echoed, nor what may hold one."""


class Mistake(NamedTuple):
    """One thing wrong with a config: where, and what."""

    path: Path
    message: str


class NotRead(Exception):
    """A part of the config is needed that was told as a mistake already: what follows from it is not known."""


def _raise(*_: object) -> Any:
    raise NotRead


_not_read: Any = _raise


class _Bad:
    """Stands for a value that was told as a mistake, and for every part of it. Looking at it raises NotRead: what is
    concluded without it holds, whatever it should have been."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __str__(self) -> str:
        return "?"

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _not_read
    __hash__ = __bool__ = __len__ = __iter__ = __call__ = _not_read
    __sub__ = __mul__ = __rmul__ = __rtruediv__ = _not_read


BAD: Any = _Bad()
_P = ParamSpec("_P")


def as_far_as_read(check: Callable[_P, Iterator[Mistake]]) -> Callable[_P, Iterator[Mistake]]:
    """The check, ending without a word where it needs a part that could not be read."""

    @wraps(check)
    def told(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[Mistake]:
        try:
            yield from check(*args, **kwargs)
        except NotRead:
            return

    return told


def needed(*parts: object) -> None:
    """Before parts are given to what does not know of BAD. Raises NotRead when one could not be read."""
    if any(part is BAD for part in parts):
        raise NotRead


def build(value: Any, kind: Any, path: Path, mistakes: list[Mistake]) -> Any:
    """`value` as `kind`; what does not fit is appended to `mistakes`, and BAD stands in its place."""
    inner, extra = _unwrap(kind)
    if _is_struct(inner):
        return _build_struct(value, inner, path, mistakes)
    item = _tuple_item(inner)
    if item is not None and isinstance(value, list):
        return tuple(build(entry, item, (*path, index), mistakes) for index, entry in enumerate(value))
    try:
        return msgspec.convert(_from_form(value, extra.get("form")), kind)
    except (msgspec.ValidationError, ValueError) as error:
        mistakes.append(Mistake(path, f"{_plain(error)} (it is {_shown(value, path)})"))
        return BAD


def _build_struct(value: Any, struct: type[msgspec.Struct], path: Path, mistakes: list[Mistake]) -> Any:
    if not isinstance(value, dict):
        mistakes.append(Mistake(path, "expected a table"))
        return BAD
    hints = get_type_hints(struct, include_extras=True)
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    known = ", ".join(sorted(fields))
    mistakes.extend(
        Mistake((*path, name), f"unknown key; known here: {known}") for name in value if name not in fields
    )
    built: dict[str, Any] = {}
    for name, field in fields.items():
        if name in value:
            built[field.name] = build(value[name], hints[field.name], (*path, name), mistakes)
        elif field.required:
            mistakes.append(Mistake(path, f"`{name}` is missing"))
            built[field.name] = BAD
    return struct(**built)


def _unwrap(kind: Any) -> tuple[Any, dict[str, Any]]:
    """The type inside Annotated and `| None`, with the extra of its Meta."""
    extra: dict[str, Any] = {}
    while True:
        if get_origin(kind) is Annotated:
            kind, *metas = get_args(kind)
            for meta in metas:
                if isinstance(meta, Meta) and meta.extra:
                    extra.update(meta.extra)
        elif get_origin(kind) in {Union, UnionType}:
            inner = [option for option in get_args(kind) if option is not type(None)]
            if len(inner) != 1:
                return kind, extra
            kind = inner[0]
        else:
            return kind, extra


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _tuple_item(kind: Any) -> Any:
    arguments = get_args(kind)
    if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    return None


def _from_form(value: Any, form: str | None) -> Any:
    if form == "dollars":
        return _nanousd(value)
    if form == "instant":
        if isinstance(value, dt.datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return int(Decimal(repr(moment.timestamp())) * 1_000_000_000)
        if isinstance(value, dt.date):
            return int(dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC).timestamp()) * 10**9
    return value


def _nanousd(value: Any) -> Any:
    """Nano-dollars of text or of a whole number. Raises ValueError where dollars must be meant."""
    if isinstance(value, str):
        return nanousd_of(value)
    said = None
    if isinstance(value, float):
        said = f'dollars are written as text, "{value}", so that they are exact'
    elif type(value) is int and 0 < value < _LEAST_NANOUSD:
        said = (
            f"a number without quotes is nano-dollars, and {value} of them are next to nothing:"
            f' for dollars write "{value}", for so little "{Decimal(value).scaleb(-9):f}"'
        )
    if said is not None:
        raise ValueError(said)
    return value


def nanousd_of(text: str) -> int:
    """Decimal dollars, with or without `$`, as integer nano-dollars. Raises ValueError when not exact."""
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation as error:
        raise ValueError(f"`{text}` is no amount of dollars") from error
    # A number of a million digits is written in nine characters.
    if not amount.is_finite() or amount.adjusted() > _MAX_DIGITS:
        raise ValueError(f"`{text}` is no amount of dollars")
    try:
        exact = _EXACT.multiply(amount, Decimal(NANOUSD_PER_USD))
        return int(exact.to_integral_exact(context=_EXACT))
    except (Inexact, Overflow) as error:
        raise ValueError(f"`{text}` is finer than a nano-dollar") from error


def _plain(error: Exception) -> str:
    return str(error).removesuffix(" - at `$`").replace("`", "")


def _shown(value: Any, path: Path) -> str:
    if path and str(path[-1]) in _NEVER_SHOWN:
        return "not shown"
    return repr(value)[:60]
