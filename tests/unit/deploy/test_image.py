"""The image: what it installs, from where, and as whom it runs. Read from the Dockerfile; no daemon needed."""

from __future__ import annotations

import re
import tomllib

import pytest

from support.manifests import FOLDER, ROOT

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)


def stages() -> list[str]:
    text = "".join(
        line
        for line in (FOLDER / "Dockerfile").read_text().splitlines(keepends=True)
        if not line.startswith("#")
    )
    return re.split(r"^FROM ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]


def blocks(name: str) -> dict[str, str]:
    """Each pinned requirement of a lock with its hashes, by name and marker."""
    text = (ROOT / name).read_text()
    return {
        entry.split("\\")[0].strip(): entry.strip().removesuffix("\\").strip()
        for entry in re.split(r"\n(?=[a-z0-9])", text)
        if PIN.match(entry)
    }


def names(*requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=! ;]", each)[0] for several in requirements for each in several}


def test_the_last_stage_runs_as_a_numbered_user_and_starts_without_a_shell() -> None:
    last = stages()[-1]
    (user,) = re.findall(r"^USER (\S+)$", last, re.MULTILINE)
    assert all(int(number) > 0 for number in user.split(":"))
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", last, re.MULTILINE)
    assert entry.startswith("[")
    assert not re.search(r"^RUN ", last, re.MULTILINE)


def test_no_stage_builds_on_latest() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    (default,) = re.findall(r"^ARG PYTHON=(\S+)$", text, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11[a-z0-9.-]*", default)
    assert all(stage.startswith("${PYTHON}") for stage in stages())


def test_everything_installed_has_a_hash_or_was_built_here() -> None:
    installs = re.findall(r"pip (?:install|wheel) ([^&\n]+)", "".join(stages()))
    assert len(installs) == 4
    for install in installs:
        assert "--no-deps" in install
        assert "--require-hashes" in install or "--no-index" in install, install


def test_what_is_copied_exists_and_passes_the_ignore_file() -> None:
    allowed = set(re.findall(r"^!(\S+)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", "".join(stages()), re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_image_and_demo_install_the_versions_and_hashes_that_ci_tested() -> None:
    tested = blocks("requirements.lock")
    for name in ("requirements-runtime.lock", "requirements-build.lock", "requirements-demo.lock"):
        lock = (ROOT / name).read_text()
        assert "://" not in lock
        pinned = blocks(name)
        assert len(pinned) > 3
        for requirement, hashes in pinned.items():
            assert tested[requirement] == hashes, f"{name}: {requirement} is not as in requirements.lock"


@pytest.mark.parametrize(
    ("lock", "extras", "groups"), [("runtime", ["kafka"], []), ("demo", ["kafka", "demo"], ["build"])]
)
def test_a_small_lock_has_every_dependency_and_no_development_tool(
    lock: str, extras: list[str], groups: list[str]
) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, tools = declared["project"], declared["dependency-groups"]
    wanted = names(
        project["dependencies"],
        *(project["optional-dependencies"][extra] for extra in extras),
        *(tools[group] for group in groups),
    )
    pinned = {match[0] for match in PIN.findall((ROOT / f"requirements-{lock}.lock").read_text())}
    assert wanted <= pinned
    assert not names(tools["dev"]) & pinned
