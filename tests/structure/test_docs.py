"""Docs say what the code says: generated pages are current, links resolve, shown configs and commands are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import reference_docs
from tidegate.runtime.settings import parse_settings

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)


@pytest.mark.parametrize("name", reference_docs.PAGES)
def test_generated_reference_pages_are_current(name: str) -> None:
    page = (reference_docs.FOLDER / name).read_text()
    assert page == reference_docs.PAGES[name](), "run: python tests/support/reference_docs.py"


def test_links_between_pages_resolve() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_config_in_the_readme_is_a_good_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert parse_settings(example).routes[0].name == "fast"


def test_commands_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    known = reference_docs.cli_md()
    for words in re.findall(r"\.venv/bin/tidegate ((?:[a-z-]+ ?)+)", readme):
        name = words.split()
        assert any(f"## tidegate {' '.join(name[:n])}\n" in known for n in (1, 2)), words
    for target in re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_every_dependency_is_argued_in_one_line() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    page = (ROOT / "docs" / "decisions" / "0005-dependencies.md").read_text()
    block = project[project.index("dependencies = [") : project.index("[project.scripts]")]
    for name in re.findall(r'"([A-Za-z][A-Za-z0-9-]*)(?:\[[a-z]+\])?(?:[=><]|")', block):
        assert f"`{name}`" in page, f"{name} is not argued"
