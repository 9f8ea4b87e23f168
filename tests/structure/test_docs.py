"""Docs say what the code says: nothing is missing, generated pages are current, links resolve, examples are real."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from msgspec import structs

from support import reference_docs
from support.reference_words import ERRORS, SETTINGS, TABLES
from tidegate.events import config, registry, topics
from tidegate.gateway.dialects.quirks import Quirks
from tidegate.gateway.errors import STATUS
from tidegate.runtime.cli import app
from tidegate.runtime.settings import parse_settings

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
TOP = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "SECURITY", "CONTRIBUTING")]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md")), ROOT / "deploy" / "k8s" / "README.md"]
ADR_HEADINGS = ["## Context", "## Decision", "## Consequences"]


def reference(name: str) -> str:
    return (DOCS / "reference" / name).read_text()


def sections(page: str) -> dict[str, str]:
    """Text below each heading of the second level."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def shell_lines(text: str) -> list[str]:
    """Every command of the shell blocks, continued lines joined."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [
        line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()
    ]


def structs_below(struct: type) -> set[type]:
    """The struct and every struct of ours that its fields hold, in config."""
    found = {struct}
    for name in re.findall(r"config\.(\w+)", str([struct.__annotations__ for struct in found])):
        inner = getattr(config, name, None)
        if isinstance(inner, type) and hasattr(inner, "__struct_fields__"):
            found |= structs_below(inner)
    return found


@pytest.mark.parametrize("name", reference_docs.PAGES)
def test_generated_reference_pages_are_current(name: str) -> None:
    assert reference(name) == reference_docs.PAGES[name](), "run: python tests/support/reference_docs.py"


def test_every_setting_is_described() -> None:
    # A table whose keys only the gateway knows: the config holds them by name.
    assert structs_below(config.Settings) | {Quirks} == set(TABLES.values())
    page = sections(reference("settings.md"))
    for title, struct in TABLES.items():
        names = {field.encode_name for field in structs.fields(struct)}
        assert set(SETTINGS[title]) == names, title
        for name in names:
            (row,) = re.findall(rf"^\| `{name}` \| (.+) \|$", page[title], re.MULTILINE)
            assert all(cell.strip() for cell in (row.split(" | ")[0], row.split(" | ")[2])), (title, name)


def test_every_event_is_described_with_its_topic_and_fields() -> None:
    page = sections(reference("events.md"))
    for (name, version), struct in registry.STRUCTS.items():
        text = page[f"{name} v{version}"]
        topic = registry.TOPIC_OF[name]
        assert (f"Topic: `{topic}`." if topic else "In every topic.") in text
        for field in structs.fields(struct):
            assert f"| `{field.encode_name}` |" in text, f"{name}.{field.encode_name}"
    for part in reference_docs.PARTS:
        assert part.__name__ in page


def test_every_topic_stands_in_the_design() -> None:
    design = (DOCS / "design.md").read_text()
    assert set(re.findall(r"^\| `(tidegate\.[a-z.]+\.v\d+)` \|", design, re.MULTILINE)) == set(topics.BY_NAME)


def test_every_error_code_is_described_with_its_status() -> None:
    page = reference("errors.md")
    assert set(ERRORS) == set(STATUS)
    for code, status in STATUS.items():
        assert re.search(rf"^\| `{code}` \| {status} \| \S.+ \|$", page, re.MULTILINE), code


def test_every_command_is_described_with_its_options() -> None:
    page = sections(reference("cli.md"))
    found = 0
    stack: list[tuple[tuple[str, ...], Any]] = [(("tidegate",), typer.main.get_command(app))]
    while stack:
        path, command = stack.pop()
        if hasattr(command, "commands"):
            stack += [((*path, name), child) for name, child in command.commands.items()]
            continue
        found += 1
        text = page[" ".join(path)]
        for parameter in command.params:
            if parameter.name != "help" and not getattr(parameter, "hidden", False):
                assert any(f"`{name}`" in text for name in (*parameter.opts, parameter.name.upper())), path
    assert found == len(page)


def test_links_between_pages_resolve() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached:
            continue
        reached.add(page)
        if page.is_dir():
            waiting += page.glob("*.md")
        elif page.suffix == ".md":
            links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
            waiting += [page.parent / link for link in links if "://" not in link]
    assert {page.resolve() for page in PAGES} <= reached


def test_the_config_in_the_readme_is_a_good_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    settings = parse_settings(example)
    assert settings.routes[0].name == "fast"
    assert settings.targets[0].secret == "env:OPENAI_API_KEY"


def test_shell_blocks_show_commands_that_exist() -> None:
    commands = typer.main.get_command(app)
    shown = [
        line
        for page in (*TOP, ROOT / "deploy" / "k8s" / "README.md")
        for line in shell_lines(page.read_text())
    ]
    assert len(shown) > 12
    for line in shown:
        words = shlex.split(line)
        program = words[0].rpartition("/")[2]
        if program == "tidegate":
            command: Any = commands
            context, rest = None, words[1:]
            while hasattr(command, "resolve_command"):
                context = command.make_context("tidegate", [], resilient_parsing=True)
                _, found, rest = command.resolve_command(context, rest)
                assert found is not None, line
                command = found
            command.make_context(command.name, rest, parent=context)
        elif program == "make":
            assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), line
        else:
            assert program in {"curl", "docker", "export", "head", "kubectl"}, line


def test_every_dependency_is_argued_in_one_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = [
        *project["project"]["dependencies"],
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
        *(name for group in project["dependency-groups"].values() for name in group),
    ]
    names = [re.split(r"[\[<>=!;\s]", requirement)[0] for requirement in listed]
    page = (DOCS / "decisions" / "0005-dependencies.md").read_text()
    argued = re.findall(r"^- `([^`]+)`: \S.+\.$", page, re.MULTILINE)
    assert sorted(argued) == sorted(names)


def test_decisions_are_numbered_short_and_say_context_choice_and_consequences() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for page in pages:
        text = page.read_text()
        assert len(text.splitlines()) <= 60, page.name
        if not page.name.endswith("dependencies.md"):
            assert re.findall(r"^## .+$", text, re.MULTILINE) == ADR_HEADINGS, page.name


def test_the_changelog_has_a_security_heading_and_names_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    assert version in newest.splitlines()[0]
    assert "\n### Security\n" in newest


def test_the_prose_names_no_place_of_a_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(?:work|root|home/\w+|tmp)/", page.read_text()), page.name
