"""What a machine must have before a role starts there: told by name and line, nothing secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from tidegate.runtime.machine import Machine, data_key_of
from tidegate.runtime.ready import ALL_TABLES, TABLES_OF, log_faults, missing_here, socket_mistakes
from tidegate.runtime.settings import ConfigFile, ConfigInvalid, parse_settings

TEXT = """
data_key = "env:DATA_KEY"
[admin]
token = "env:ADMIN"
[metrics]
token = "env:METRICS"
[log]
kind = "kafka"
bootstrap = "127.0.0.1:1"
tls = true
ca_file = "{ca}"
sasl = "SCRAM-SHA-512"
username = "tidegate"
password = "env:KAFKA"
[[targets]]
id = "a"
dialect = "openai"
base_url = "https://api.example.test"
model = "m"
secret = "env:A_KEY"
ca_file = "{ca}"
proxy = "http://proxy.internal:3128"
proxy_secret = "env:PROXY"
"""
ENV = {
    "DATA_KEY": "ab" * 32,
    "ADMIN": "admin-token-of-tests",
    "METRICS": "metrics-token",
    "KAFKA": "kafka-password",
    "A_KEY": "sk-upstream",
    "PROXY": "bob:hunter2pw",
}


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


def said(text: str, env: dict[str, str], tables: frozenset[str] = ALL_TABLES) -> list[str]:
    settings = parse_settings(text)
    mistakes = missing_here(settings, env, tables)
    return ConfigFile(Path("t.toml"), text, settings).invalid(mistakes).mistakes


def test_a_machine_that_has_everything_is_ready(ca: Path) -> None:
    assert said(TEXT.format(ca=ca), ENV) == []


def test_every_missing_secret_is_named_with_its_line(ca: Path) -> None:
    found = said(TEXT.format(ca=ca), {})
    lines = [(line.split(":")[1], line.split(": ")[1]) for line in found]
    assert lines == [
        ("2", "data_key"),
        ("4", "admin.token"),
        ("6", "metrics.token"),
        ("14", "log.password"),
        ("20", "targets[0].secret"),
        ("23", "targets[0].proxy_secret"),
    ]
    assert all("is not set or empty" in line for line in found)


@pytest.mark.parametrize(
    ("role", "needs"),
    [
        ("gateway", {"data_key", "log.password", "targets[0].secret", "targets[0].proxy_secret"}),
        ("log", {"metrics.token", "log.password"}),
        ("estimator", {"log.password"}),
        ("projector", {"log.password"}),
        ("admin", {"admin.token", "log.password"}),
    ],
)
def test_a_role_needs_no_secret_of_another(ca: Path, role: str, needs: set[str]) -> None:
    found = said(TEXT.format(ca=ca), {}, TABLES_OF[role])
    assert {line.split(": ")[1] for line in found} == needs


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_a_ca_file_that_cannot_be_loaded_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bad.pem"
    if content is not None:
        path.write_bytes(content)
    found = said(TEXT.format(ca=path), ENV)
    assert [line.split(": ")[1] for line in found] == ["log.ca_file", "targets[0].ca_file"]
    assert all(str(path) in line for line in found)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PROXY", "hunter2pw-alone", "user:password"),
        ("DATA_KEY", "hunter2pw" * 4, "32 bytes or their 64 hex digits"),
        ("A_KEY", "hun ter2pw", "not printable"),
        ("KAFKA", "hunter2", "too short"),
        ("ADMIN", "hunter2-hunter2", "fewer than 16 characters"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named_and_not_shown(
    ca: Path, name: str, value: str, says: str
) -> None:
    (found,) = said(TEXT.format(ca=ca), {**ENV, name: value})
    assert says in found
    assert value not in found


def test_secrets_need_not_be_at_hand_where_they_are_not_asked_for(ca: Path) -> None:
    assert missing_here(parse_settings(TEXT.format(ca=ca)), {}, ALL_TABLES, secrets=False) == []


def test_a_data_folder_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    deep = parse_settings(f'data_dir = "/{"x" * 90}"')
    (mistake,) = socket_mistakes(Machine(deep, env={}), ("gw-0",))
    assert mistake.path == ("data_dir",)
    assert "too long for a socket" in mistake.message
    assert socket_mistakes(Machine(parse_settings('data_dir = "/data"'), env={}), ("gw-0",)) == []
    assert socket_mistakes(Machine(parse_settings('data_dir = "/data"'), env={}), ("g" * 100,)) != []


async def test_a_kafka_that_does_not_answer_is_no_fault_of_the_config() -> None:
    settings = parse_settings('[log]\nkind = "kafka"\nbootstrap = "127.0.0.1:1"')
    assert await log_faults(Machine(settings, env={})) is None


def test_the_data_key_comes_from_its_reference_or_from_the_folder(tmp_path: Path) -> None:
    by_env = Machine(parse_settings('data_key = "env:K"'), env={"K": "0f" * 32}, base=tmp_path)
    assert by_env.data_key() == bytes([15]) * 32
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600)
    by_file = Machine(parse_settings(f'data_key = "file:{path}"'), env={}, base=tmp_path)
    assert by_file.data_key() == bytes(range(32))
    assert not (tmp_path / "tidegate-data").exists()
    own = Machine(parse_settings('durability = "fast"'), env={}, base=tmp_path)
    own.make_folders()
    assert own.data_key() == own.data_key()
    assert len(own.data_key()) == 32
    path.chmod(0o644)
    with pytest.raises(ConfigInvalid, match="chmod 600"):
        by_file.data_key()


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33, b"zz" * 32, b"ab" * 31, "ä".encode() * 40])
def test_a_data_key_of_another_size_is_refused_and_not_shown(content: bytes) -> None:
    with pytest.raises(ConfigInvalid, match="64 hex digits") as caught:
        data_key_of(content, "env:K")
    assert not content or content.decode(errors="replace") not in str(caught.value)
    assert data_key_of(b"ab" * 32 + b"\n", "env:K") == b"\xab" * 32


def test_kafka_is_reached_as_configured_with_a_name_of_this_process_alone(ca: Path) -> None:
    machine = Machine(parse_settings(TEXT.format(ca=ca)), env=ENV)
    found = machine.kafka_settings()
    assert (found.security_protocol, found.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (found.sasl_username, found.sasl_password) == ("tidegate", "kafka-password")
    assert found.ssl_context is not None
    assert len(found.ssl_context.get_ca_certs()) == 1
    assert found.compression == "zstd"
    assert "kafka-password" not in repr(found)
    assert machine.kafka_settings().client_id == found.client_id
    # The same pid on the same host, as in two containers of one host network, is still another process.
    assert Machine(machine.settings, env=ENV).client_id != found.client_id


@pytest.mark.parametrize(
    ("extra", "protocol", "compression"),
    [
        ("", "PLAINTEXT", "zstd"),
        ('compression = "none"', "PLAINTEXT", None),
        ("tls = true", "SSL", "zstd"),
        (
            'sasl = "PLAIN"\nusername = "u"\npassword = "env:KAFKA"\ncompression = "lz4"',
            "SASL_PLAINTEXT",
            "lz4",
        ),
    ],
)
def test_kafka_settings_say_the_protocol(extra: str, protocol: str, compression: str | None) -> None:
    text = f'[log]\nkind = "kafka"\nbootstrap = "a:1,b:2"\n{extra}'
    found = Machine(parse_settings(text), env=ENV).kafka_settings()
    assert (found.security_protocol, found.compression) == (protocol, compression)
    assert found.client_options()["bootstrap_servers"] == "a:1,b:2"
