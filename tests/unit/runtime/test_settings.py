"""The config file: every mistake at once, by name and line; nothing secret ever shown."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.events.config import Settings
from tidegate.runtime.checks import find_mistakes
from tidegate.runtime.ready import ALL_TABLES, missing_here
from tidegate.runtime.settings import (
    MIN_SECRET_CHARS,
    ConfigInvalid,
    find_config,
    load_settings,
    parse_settings,
    resolve_secret,
    resolve_secrets,
)
from tidegate.runtime.validation import Mistake, build

DIGEST = "sha256:" + hashlib.sha256(b"k").hexdigest()
GOOD = f"""
data_dir = "data"
durability = "fast"
[gateway]
port = 9000
[[tenants]]
id = "acme"
[[keys]]
id = "k1"
tenant = "acme"
digest = "{DIGEST}"
[[pools]]
id = "plan"
billing = "flat"
[[pools.windows]]
id = "5h"
unit = "requests"
limit = 100
duration_s = 18000
[[targets]]
id = "a"
dialect = "openai"
base_url = "https://api.example.test/v1"
model = "m"
pool = "plan"
secret = "env:A_KEY"
[[targets.prices]]
input_uncached = "2.50"
output = 10_000_000_000
[[targets.prices]]
from = 2027-01-01
input_uncached = "$2"
output = "8"
[[routes]]
name = "fast"
[[routes.candidates]]
target = "a"
"""


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as caught:
        parse_settings(text, "t.toml")
    return caught.value.mistakes


def test_a_good_file_becomes_exactly_the_config_types() -> None:
    settings = parse_settings(GOOD)
    target = settings.targets[0]
    assert target.prices[0].input_uncached == 2_500_000_000
    assert target.prices[0].output == 10_000_000_000
    assert target.prices[1].from_ns == 1_798_761_600 * 10**9
    assert settings.gateway.port == 9000
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings
    later = target.list_price(target.prices[1].from_ns)
    assert later is not None
    assert later.output == 8_000_000_000


def test_all_mistakes_are_told_at_once_by_name_and_line() -> None:
    text = (
        GOOD.replace("port = 9000", 'port = "no"\nprot = 1')
        .replace('model = "m"\n', "")
        .replace('tenant = "acme"\ndigest', "tenant = 7\ndigest")
    )
    found = mistakes_of(text)
    assert len(found) == 4
    assert found[0].startswith("t.toml:5: gateway.port: ")
    assert found[1].startswith("t.toml:6: gateway.prot: unknown key; known here: ")
    assert "keys[0].tenant" in found[2]
    assert found[3].startswith("t.toml:21: targets[0]: `model` is missing")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('target = "a"', 'target = "b"'), "there is no target `b`"),
        (('pool = "plan"', 'pool = "plam"'), "there is no pool `plam`"),
        (('tenant = "acme"\ndigest', 'tenant = "evil"\ndigest'), "there is no tenant `evil`"),
        (("https://api", "http://api"), "plain http"),
        (("https://api", "ftp://api"), "scheme must be https or http"),
        (('secret = "env:A_KEY"', 'secret = "sk-live-1234567890"'), "never the secret itself"),
        (("from = 2027-01-01", "from = 1969-01-01"), "targets[0].prices[1].from"),
        (('input_uncached = "2.50"', 'input_uncached = "2.5000000001"'), "finer than a nano-dollar"),
        (('input_uncached = "2.50"', 'input_uncached = "lots"'), "no amount of dollars"),
        (('input_uncached = "2.50"', "input_uncached = 2.5"), 'written as text, "2.5"'),
        (
            ('input_uncached = "2.50"', "input_uncached = 3"),
            'for dollars write "3", for so little "0.000000003"',
        ),
        (("limit = 100", "limit = 0"), "limit"),
        (
            ('[[pools.windows]]\nid = "5h"\nunit = "requests"\nlimit = 100\nduration_s = 18000\n', ""),
            "needs a window",
        ),
        (("limit = 100", "limit = 100\npercent_only = true"), "window `5h` needs `scope`"),
        (("limit = 100", 'limit = 100\nkind = "rolling"\nscope = "requests"'), "`5h` rolls"),
        (
            (
                "duration_s = 18000",
                'duration_s = 18000\nscope = "x"\n[[pools.windows]]\nid = "7d"\nunit = "tokens"\nlimit = 9\nduration_s = 9\nscope = "x"',
            ),
            "windows `5h` and `7d` of pool `plan` have the same `scope`",
        ),
        (('pool = "plan"', 'pool = "plan"\nquota_weight = 0.25'), "would count 0.25 times in window `5h`"),
        (
            (
                "duration_s = 18000",
                'duration_s = 18000\npeaks = [{ weight = 1.5, from = "09:00", to = "17:00" }]',
            ),
            "would count 1.5 times in window `5h`",
        ),
        (('durability = "fast"', 'durability = "best"'), "durability"),
        (("[gateway]", '[log]\nkind = "kafka"\n[gateway]'), "`bootstrap` is missing"),
        (('pool = "plan"', 'pool = "plan"\nforward_headers = ["x-api-key"]'), "never forwarded"),
        (('[[routes.candidates]]\ntarget = "a"\n', "candidates = []\n"), "no candidates"),
    ],
)
def test_each_mistake_is_named(change: tuple[str, str], says: str) -> None:
    assert change[0] in GOOD
    found = mistakes_of(GOOD.replace(*change))
    assert len(found) == 1, found
    assert says in found[0]
    assert "1234567890" not in found[0]


@pytest.mark.parametrize(
    "change",
    [
        ('pool = "plan"', 'pool = "plan"\nquota_weight = 4'),
        ('unit = "requests"', 'unit = "tokens"\npeaks = [{ weight = 0.5, from = "00:00", to = "06:00" }]'),
        (
            "duration_s = 18000",
            'duration_s = 18000\npeaks = [{ weight = 3, from = "09:00", to = "17:00" }]',
        ),
    ],
)
def test_weights_that_come_to_whole_requests_and_any_of_tokens_are_taken(change: tuple[str, str]) -> None:
    assert change[0] in GOOD
    parse_settings(GOOD.replace(*change))


URL = "https://api.example.test/v1"
TARGET = 'secret = "env:A_KEY"'


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((URL, "https://u:hunter2pw@api.test/v1"), "must not carry user information"),
        ((URL, "https://hunter2pw@api.test/v1"), "must not carry user information"),
        ((URL, "https://api.test:99999"), "targets[0].base_url"),
        ((URL, "https://api.test:0"), "port must be"),
        ((URL, "https://api.test/v1?x=hunter2pw"), "query or a fragment"),
        ((URL, "https://api.test/v1#f"), "fragment"),
        ((URL, "https://"), "targets[0].base_url"),
        ((URL, "https://2130706433/v1"), "numeric host"),
        ((URL, "https://169.254.169.254/v1"), "link-local"),
        ((URL, "https://100.100.100.200/v1"), "metadata service"),
        ((URL, "https://127.0.0.1/v1"), "private or loopback"),
        ((URL, "https://api.test/\\u000dx"), "targets[0].base_url"),
        ((TARGET, f'{TARGET}\nproxy = "socks5://p:1"'), "proxy must be http://host:port"),
        ((TARGET, f'{TARGET}\nproxy = "http://bob:hunter2pw@p:1"'), "use proxy_secret"),
        (
            (TARGET, f'{TARGET}\nproxy = "http://p:1"\nproxy_secret = "bob:hunter2pw"'),
            "never the secret itself",
        ),
        ((TARGET, f'{TARGET}\nproxy_secret = "env:P"'), "no `proxy`"),
        ((TARGET, f'{TARGET}\nca_file = "ca.pem"'), "absolute path"),
        ((TARGET, 'secret = "file:secrets/a"'), "never the secret itself"),
        ((TARGET, 'secret = "env:A KEY"'), "never the secret itself"),
        (('id = "a"', 'id = "a\\r\\nx-evil: 1"'), "targets[0].id"),
        (('id = "a"', 'id = "a\\n"'), "targets[0].id"),
        (('id = "a"', 'id = ""'), "targets[0].id"),
        (('id = "acme"', 'id = "a b"'), "tenants[0].id"),
        (('id = "k1"', f'id = "{"k" * 200}"'), "keys[0].id"),
        (('id = "5h"', 'id = "../5h"'), "pools[0].windows[0].id"),
        (('name = "fast"', 'name = ""'), "routes[0].name"),
        (('name = "fast"', 'name = " "'), "routes[0].name"),
        (('model = "m"', 'model = ""'), "targets[0].model"),
        (("duration_s = 18000", "duration_s = inf"), "duration_s"),
        (("duration_s = 18000", "duration_s = nan"), "duration_s"),
        (("duration_s = 18000", "duration_s = 1e300"), "duration_s"),
        (("duration_s = 18000", "duration_s = 1e-12"), "duration_s"),
        (("limit = 100", "limit = 100_000_000_000_000_000_000"), "limit"),
        (("port = 9000", "drain_grace_s = inf"), "drain_grace_s"),
        (("port = 9000", "workers = 1_000_000"), "workers"),
        (("port = 9000", 'slot = "../../etc"'), "slot"),
        (("port = 9000", 'host = "http://here"'), "gateway.host"),
        (("from = 2027-01-01", "from = 9999-01-01"), "prices[1].from"),
        (('input_uncached = "2.50"', 'input_uncached = "1e999999999"'), "no amount of dollars"),
        (('input_uncached = "2.50"', 'input_uncached = "1e8"'), "input_uncached"),
        (('input_uncached = "2.50"\n', ""), "`input_uncached` is missing"),
        (('output = "8"', ""), "`output` is missing"),
        (('data_dir = "data"', 'data_dir = "data"\ndata_key = "hunter2pw"'), "never the secret itself"),
        (("[gateway]", '[admin]\ntoken = "hunter2pw"\n[gateway]'), "never the secret itself"),
        (("[gateway]", '[metrics]\ntoken = "hunter2pw"\n[gateway]'), "never the secret itself"),
        (("[gateway]", '[log]\nbootstrap = "kafka"\n[gateway]'), "must be host:port"),
        (("[gateway]", '[log]\nbootstrap = "a:1,b:99999"\n[gateway]'), "must be host:port"),
        (("[gateway]", '[log]\nsasl = "PLAIN"\nusername = "u"\n[gateway]'), "`password` is missing"),
        (("[gateway]", '[log]\npassword = "env:P"\n[gateway]'), "need `sasl`"),
        (
            ("[gateway]", '[log]\nsasl = "PLAIN"\nusername = "u"\npassword = "hunter2pw"\n[gateway]'),
            "never the secret itself",
        ),
        (("[gateway]", '[log]\nca_file = "/ca.pem"\n[gateway]'), "`tls = true`"),
        (("[gateway]", '[log]\ntopic_prefix = "a/b"\n[gateway]'), "topic_prefix"),
    ],
)
def test_what_could_not_be_run_is_refused_by_name_and_line_and_not_repeated(
    change: tuple[str, str], says: str
) -> None:
    assert change[0] in GOOD
    found = mistakes_of(GOOD.replace(*change, 1))
    assert len(found) == 1, found
    assert says in found[0]
    assert found[0].startswith("t.toml:")
    assert "hunter2pw" not in found[0]


def test_names_may_look_like_model_names_and_proxies_have_their_secret_beside_them() -> None:
    text = GOOD.replace('name = "fast"', 'name = "openai/gpt-5:free@eu+x"').replace(
        TARGET, f'{TARGET}\nproxy = "http://proxy.internal:3128"\nproxy_secret = "env:PROXY"'
    )
    target = parse_settings(text).targets[0]
    assert (target.proxy, target.proxy_secret) == ("http://proxy.internal:3128", "env:PROXY")
    found = resolve_secrets([target], {"A_KEY": "key-key-key", "PROXY": "bob:hunter2pw"})
    assert found == {"env:A_KEY": "key-key-key", "env:PROXY": "bob:hunter2pw"}


@pytest.mark.parametrize(("cap", "workers", "good"), [(3, 4, False), (4, 4, True), (1, 1, True)])
def test_a_cap_that_workers_cannot_share_is_a_mistake(cap: int, workers: int, good: bool) -> None:
    text = GOOD.replace("port = 9000", f"port = 9000\nworkers = {workers}")
    text = text.replace('pool = "plan"\nsecret', f'pool = "plan"\nmax_in_flight = {cap}\nsecret')
    if good:
        assert parse_settings(text).targets[0].max_in_flight == cap
    else:
        assert "less than one for each of 4 workers" in mistakes_of(text)[0]


ALL_KINDS = """
data_dir = 5
[gateway]
workers = "two"
port = "no"
[log]
kind = "kafka"
bootstrap = 7
sasl = "PLAN"
username = "u"
ca_file = "/ca.pem"
tls = "yes"
[[tenants]]
id = "acme"
[[tenants]]
id = "acme"
[[pools]]
id = "p"
billing = "flat"
windows = 3
[[pools]]
id = "q"
[[pools.windows]]
id = "w"
unit = "bananas"
limit = 3
duration_s = 60
peaks = [{ weight = "x", from = "09:00", to = "17:00", timezone = "Mars/Base" }]
[[pools.windows]]
id = "w"
unit = "requests"
limit = 3
duration_s = 60
[[targets]]
id = "a"
dialect = "opnai"
base_url = "ftp://x"
model = "m"
secret = "sk-hunter2hunter2"
pool = "nopool"
max_in_flight = 1
price_book = "openai/none-such"
[[targets.prices]]
input_uncached = "abc"
[[targets]]
id = "b"
dialect = "openai"
base_url = "https://10.0.0.1/v1"
allow_private = "yes"
model = 4
pool = "q"
proxy = 4
proxy_secret = "env:P"
quota_weight = "x"
[[routes]]
name = "fast"
[[routes.candidates]]
target = "zzz"
grade = "best"
[[routes]]
name = "fast"
[[keys]]
id = "k"
tenant = "ghost"
digest = "xx"
routes = ["slow", 3]
"""
TOLD_ONCE = {
    "data_dir", "gateway.workers", "gateway.port", "log.bootstrap", "log.sasl", "log.tls", "tenants[1].id",
    "pools[0].windows", "pools[1].windows[0].unit", "pools[1].windows[0].peaks[0].weight",
    "pools[1].windows[0].peaks[0].timezone", "pools[1].windows[1].id", "targets[0].dialect",
    "targets[0].base_url", "targets[0].secret", "targets[0].pool", "targets[0].price_book",
    "targets[0].prices[0].input_uncached", "targets[1].allow_private", "targets[1].model", "targets[1].proxy",
    "targets[1].quota_weight", "routes[0].candidates[0].target", "routes[0].candidates[0].grade", "routes[1]",
    "routes[1].name", "keys[0].tenant", "keys[0].digest", "keys[0].routes", "keys[0].routes[1]",
}  # fmt: skip


def test_what_types_references_and_secrets_say_is_told_at_once_and_nothing_follows_from_what_could_not_be_read() -> (
    None
):
    found = [line.split(": ")[1] for line in mistakes_of(ALL_KINDS)]
    assert sorted(found) == sorted(TOLD_ONCE)


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, each in items for place in ((*path, name), *_places(each, (*path, name)))]


RICH = tomllib.loads(
    GOOD.replace("[gateway]", '[log]\nkind = "kafka"\nbootstrap = "b:1"\nsasl = "PLAIN"\nusername = "u"\n'
        'password = "env:PW"\ntls = true\nca_file = "/ca.pem"\n[gateway]\nworkers = 2')
    .replace("duration_s = 18000", 'duration_s = 18000\nscope = "requests"\npercent_only = true\n'
        'peaks = [{ weight = 2, from = "09:00", to = "17:00", timezone = "Europe/Paris" }]')
    .replace('secret = "env:A_KEY"', 'secret = "env:A_KEY"\nproxy = "http://p:1"\nproxy_secret = "env:P"\n'
        'max_in_flight = 2\nallow_private = true\nprice_book = "openai/gpt-4.1"\nforward_headers = ["x-a"]\n'
        'also_speaks = ["anthropic"]\nquirks = { no_stream_options = true }')
    .replace("https://api.example.test/v1", "http://10.0.0.1/v1")
)  # fmt: skip


@pytest.mark.parametrize("place", _places(RICH), ids=str)
@pytest.mark.parametrize("wrong", [object, dict], ids=["value", "table"])
def test_one_part_that_cannot_be_read_is_told_and_nothing_else_that_is_right(
    place: tuple[str | int, ...], wrong: type
) -> None:
    """A reference to a part whose name could not be read is not told either."""
    plain = copy.deepcopy(RICH)
    held: Any = plain
    for step in place[:-1]:
        held = held[step]
    if wrong is dict and isinstance(held[place[-1]], dict):
        return
    held[place[-1]] = {"no such key": 1} if wrong is dict else dt.time()
    mistakes: list[Mistake] = []
    settings: Settings = build(plain, Settings, (), mistakes)
    told = len(mistakes)
    assert told
    mistakes += find_mistakes(settings)
    mistakes += missing_here(settings, {}, ALL_TABLES, secrets=False)
    beyond = [m for m in mistakes[told:] if "cannot be used as a list of authorities" not in m.message]
    assert not beyond


def test_an_unknown_key_does_not_hide_what_else_is_wrong() -> None:
    text = GOOD.replace("[gateway]", "[gateway]\nprot = 1").replace('target = "a"', 'target = "b"')
    found = "\n".join(mistakes_of(text))
    assert "unknown key" in found
    assert "there is no target `b`" in found


@pytest.mark.parametrize("number", ["0", "1_000_000", "2_500_000_000"])
def test_whole_numbers_of_nano_dollars_stay_what_they_are(number: str) -> None:
    target = parse_settings(GOOD.replace('input_uncached = "2.50"', f"input_uncached = {number}")).targets[0]
    assert target.prices[0].input_uncached == int(number)


@pytest.mark.parametrize("text", ["", "  \n\n", "# [gateway]\n"])
def test_an_empty_file_is_named_as_such(text: str) -> None:
    assert "is empty" in mistakes_of(text)[0]


def test_broken_toml_names_the_line() -> None:
    assert "line 2" in mistakes_of("a = 1\nb = \n")[0]


def test_the_search_order_is_flag_environment_folder_home(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "cwd"
    (home / ".config" / "tidegate").mkdir(parents=True)
    cwd.mkdir()
    with pytest.raises(ConfigInvalid, match="no config"):
        find_config(None, {}, cwd, home)
    in_home = home / ".config" / "tidegate" / "tidegate.toml"
    in_home.write_text(GOOD)
    assert find_config(None, {}, cwd, home) == in_home
    (cwd / "tidegate.toml").write_text(GOOD)
    assert find_config(None, {}, cwd, home) == cwd / "tidegate.toml"
    assert find_config(None, {"TIDEGATE_CONFIG": "/x"}, cwd, home) == Path("/x")
    assert find_config(Path("/y"), {"TIDEGATE_CONFIG": "/x"}, cwd, home) == Path("/y")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"nowhere\.toml cannot be read"):
        load_settings(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigInvalid, match="not UTF-8"):
        load_settings(tmp_path / "bad.toml")


def test_secrets_come_from_references_and_are_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2-hunter2\n")
    with pytest.raises(ConfigInvalid, match="chmod 600"):
        resolve_secret(f"file:{path}", {}, "x")
    path.chmod(0o600)
    assert resolve_secret(f"file:{path}", {}, "x") == "hunter2-hunter2"
    assert resolve_secret("env:A", {"A": "long-enough"}, "x") == "long-enough"
    for bad in ("", "tiny", "has space in it", "naïve-secret"):
        with pytest.raises(ConfigInvalid) as caught:
            resolve_secret("env:A", {"A": bad}, "target `t`")
        assert not bad or bad not in str(caught.value)
    with pytest.raises(ConfigInvalid, match="A_KEY is not set"):
        resolve_secrets(parse_settings(GOOD).targets, {})


def test_the_json_schema_describes_every_table() -> None:
    schema = msgspec.json.schema(Settings)
    assert {"Settings", "Target", "Pool", "Window", "Route"} <= set(schema["$defs"])


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (
            "[gateway]\nport = 9001\n[admin]\nport = 9001",
            ["admin.port: 9001 is the port of [gateway] already"],
        ),
        (
            '[gateway]\nport = 9001\nhost = "0.0.0.0"\n[admin]\nport = 9001\nhost = "10.0.0.1"',
            ["admin.port: 9001 is the port of [gateway] already"],
        ),
        (
            "[admin]\nport = 9001\n[metrics]\nport = 9001",
            ["metrics.port: 9001 is the port of [admin] already"],
        ),
        ("[gateway]\nport = 8081", ["admin.port: 8081 is the port of [gateway] already"]),
        ('[gateway]\nport = 9001\nhost = "10.0.0.2"\n[admin]\nport = 9001\nhost = "10.0.0.1"', []),
        ("[gateway]\nport = 0\n[admin]\nport = 0\n[metrics]\nport = 0", []),
    ],
)
def test_two_listeners_on_one_port_are_named(lines: str, named: list[str]) -> None:
    found = mistakes_of(lines) if named else parse_settings(lines) and []
    assert [mistake.split(": ", 1)[1] for mistake in found] == named


def test_a_byte_order_mark_before_the_config_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_settings(file) == parse_settings(GOOD)
    file.write_bytes(b"\xef\xbb\xbfnonsense = 1\n")
    with pytest.raises(ConfigInvalid) as told:
        load_settings(file)
    assert f"{file}:1: nonsense" in told.value.mistakes[0]


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        ("", "is not set or empty"),
        ("  \n", "is empty"),
        ("sk-sim", f"is too short: at least {MIN_SECRET_CHARS} characters"),
        ("sk-sim\x07beep", "is not printable: only ASCII"),
        ("schlüssel-42", "is not printable: only ASCII"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said_without_it(secret: str, says: str) -> None:
    with pytest.raises(ConfigInvalid) as told:
        resolve_secret("env:A_KEY", {"A_KEY": secret}, "secret of target `a`")
    (said,) = told.value.mistakes
    assert says in said
    assert "A_KEY" in said
    assert not secret.strip() or secret not in said
    assert resolve_secret("env:A_KEY", {"A_KEY": "sk-sim42"}, "secret") == "sk-sim42"


@pytest.mark.parametrize(
    ("top", "price", "told"),
    [
        ("", 'from = "x"\ninput_uncached = "1"', "targets[0].prices[0].from"),
        ("price_file = 4\n", 'input_uncached = "1"', "price_file"),
        ('price_file = "no such file"\n', 'input_uncached = "1"', "price_file"),
    ],
)
def test_prices_that_the_book_would_complete_are_not_told_to_be_missing(
    top: str, price: str, told: str
) -> None:
    head, _, rest = GOOD.partition("[[targets.prices]]")
    routes = rest[rest.index("[[routes]]") :]
    text = f'{top}{head}price_book = "openai/gpt-4.1"\n[[targets.prices]]\n{price}\n{routes}'
    assert [line.split(": ")[1] for line in mistakes_of(text)] == [told]
