"""The admin credential: made whole, never weak, never replaced."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx
import msgspec
import pytest

from tidegate.events.config import Settings
from tidegate.runtime.admin_token import admin_token
from tidegate.runtime.machine import Machine
from tidegate.runtime.ready import MIN_TOKEN_CHARS
from tidegate.runtime.settings import ConfigInvalid


def machine(folder: Path, token: str | None = None, env: dict[str, str] | None = None) -> Machine:
    settings = msgspec.convert({"data_dir": "data", "admin": {"token": token}}, Settings)
    found = Machine(settings, base=folder, env=env or {})
    found.make_folders()
    return found


def test_it_is_made_once_for_its_owner_only_and_kept(tmp_path: Path) -> None:
    first = admin_token(machine(tmp_path))
    path = tmp_path / "data" / "admin.token"
    assert (admin_token(machine(tmp_path)), path.read_text()) == (first, first)
    assert len(first) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [left.name for left in path.parent.glob("admin.token*")] == ["admin.token"]


@pytest.mark.parametrize("content", ["", "\n", "x" * (MIN_TOKEN_CHARS - 1)])
def test_a_file_that_is_empty_or_short_is_refused_and_named(tmp_path: Path, content: str) -> None:
    here = machine(tmp_path)
    (here.data_dir / "admin.token").write_text(content)
    with pytest.raises(ConfigInvalid, match=r"admin\.token: delete the file"):
        admin_token(here)


def test_a_configured_token_that_is_short_is_refused_without_being_told(tmp_path: Path) -> None:
    here = machine(tmp_path, "env:ADMIN", {"ADMIN": "short-token"})
    with pytest.raises(ConfigInvalid) as caught:
        admin_token(here)
    assert "env:ADMIN" in str(caught.value)
    assert "short-token" not in str(caught.value)


async def test_no_empty_credential_opens_the_listener(tmp_path: Path) -> None:
    from tidegate.runtime.control import Control
    from tidegate.runtime.roles.admin import build_app

    here = machine(tmp_path)
    log = here.open_log(("control",))
    app = build_app(here, Control(log, here.clock, here.ids), tmp_path / "c.toml", admin_token(here))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://admin") as client:
        for header in ("", "Bearer", "Bearer ", "Bearer  "):
            answer = await client.get("/metrics", headers={"authorization": header})
            assert answer.status_code == 401, header
    await log.close()
