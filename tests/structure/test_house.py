"""The shape of the house: layout, sizes, sources of coverage, no hidden rooms."""

from __future__ import annotations

import ast
import statistics
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = {
    "events": "services/events",
    "gateway": "services/gateway",
    "estimator": "services/estimator",
    "planner": "services/planner",
    "simulator": "services/simulator",
    "runtime": "services/runtime",
    "projections": "projections",
    "analytics": "analytics",
}
PURE = {
    "events": {"money", "codec", "partition", "quota", "causes", "upcast", "dedup", "decision"},
    "planner": {
        "decide",
        "admission",
        "price",
        "order",
        "explain",
        "uses",
        "uvi",
        "replay",
        "rng",
        "view",
        "demand",
        "facts",
        "places",
        "warm",
    },
    "gateway": {
        "sse",
        "phases",
        "usage",
        "usage_rules",
        "splice",
        "taxonomy",
        "timing",
        "session",
        "credentials",
        "answers",
        "asks",
        "bodies",
        "crossings",
        "endpoints",
        "headers",
        "mending",
        "models",
        "origins",
        "rate_limits",
        "responses_events",
        "stream_events",
        "inline_data",
        "settlements",
        "patience",
        *(
            f"dialects/{path.stem}"
            for path in (ROOT / ROOMS["gateway"] / "tidegate/gateway/dialects").glob("*.py")
        ),
    },
    "estimator": {
        "fold",
        "cache",
        "output_length",
        "price_filter",
        "rate_filter",
        "health",
        "uvi",
        "activity",
        "bank",
        "calibration",
        "capacity",
        "consumption",
        "exhaustion",
        "first_request",
        "joint",
        "outside_use",
        "paths",
        "pooling",
        "shadow_price",
    },
}
IMPURE_MODULES = {"time", "random", "asyncio", "socket", "os", "uuid", "secrets", "threading"}


@cache
def sources() -> tuple[Path, ...]:
    return tuple(
        sorted(
            path
            for room, folder in ROOMS.items()
            for path in (ROOT / folder / "tidegate" / room).rglob("*.py")
        )
    )


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def functions() -> Iterator[tuple[int, str]]:
    for path in sources():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def test_no_init_file_hides_other_rooms() -> None:
    for room, folder in ROOMS.items():
        portion = ROOT / folder / "tidegate"
        assert not (portion / "__init__.py").exists(), f"{portion} would hide every other room"
        assert [entry.name for entry in portion.iterdir() if entry.name != "__pycache__"] == [room]
        assert (portion / room / "py.typed").exists()


def test_packaging_and_coverage_name_every_room() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert sorted(project["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(
        f"{folder}/tidegate" for folder in ROOMS.values()
    )
    assert sorted(project["hatch"]["build"]["dev-mode-dirs"]) == sorted(ROOMS.values())
    assert sorted(project["coverage"]["run"]["source"]) == sorted(
        f"{folder}/tidegate/{room}" for room, folder in ROOMS.items()
    )


def test_modules_are_small() -> None:
    sizes = sorted((len(path.read_text().splitlines()), str(path.relative_to(ROOT))) for path in sources())
    assert sizes[-1][0] <= 500, sizes[-1]
    assert sizes[int(len(sizes) * 0.9)][0] <= 350
    assert statistics.median(size for size, _ in sizes) <= 150


def test_functions_are_short() -> None:
    sizes = sorted(functions())
    assert sizes[-1][0] <= 60, sizes[-1]
    assert sizes[int(len(sizes) * 0.9)][0] <= 30
    assert statistics.median(size for size, _ in sizes) <= 8


def test_nothing_is_left_to_do_later() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    found = [f"{path}: {word}" for path in sources() for word in words if word in path.read_text()]
    assert found == []


@pytest.mark.parametrize("room", PURE)
def test_pure_modules_hold_no_clock_no_randomness_no_io(room: str) -> None:
    for name in PURE[room]:
        path = ROOT / ROOMS[room] / "tidegate" / room / f"{name}.py"
        for node in nodes(path):
            assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), f"{path} awaits"
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for imported in names:
                assert imported.split(".")[0] not in IMPURE_MODULES, f"{path} imports {imported}"


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        (
            "aiokafka",
            (
                "services/events/tidegate/events/log/kafka",
                "services/estimator/tidegate/estimator/faust_app.py",
            ),
        ),
        ("faust", ("services/estimator/tidegate/estimator/faust_app.py",)),
        ("duckdb", ("projections/", "analytics/")),
        ("pyarrow", ("services/events/tidegate/events/archive",)),
        (
            "fastapi",
            ("services/gateway/", "services/runtime/", "services/planner/tidegate/planner/service.py"),
        ),
        ("httpx", ("services/gateway/", "services/runtime/", "services/simulator/")),
        ("openai", ("services/runtime/tidegate/runtime/demo/",)),
    ],
)
def test_each_outside_package_has_its_place(package: str, allowed: tuple[str, ...]) -> None:
    for path in sources():
        place = str(path.relative_to(ROOT))
        for node in nodes(path):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            if any(name.split(".")[0] == package for name in names):
                assert place.startswith(allowed), f"{place} imports {package}"


def test_the_lock_holds_names_and_hashes_only() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "index-url" not in lock
    entries = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
    assert all("==" in line and line.rstrip().endswith("\\") for line in entries)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    dotted = ".".join(parts[parts.index("tidegate") :])
    return dotted.removesuffix(".__init__")


def imported_at_once(path: Path, known: set[str]) -> set[str]:
    """Modules of ours that importing this one imports: not those in functions or for type checkers only."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return (found & known) - {module_name(path)}


def test_no_module_imports_itself_through_others() -> None:
    known = {module_name(path) for path in sources()}
    graph = {module_name(path): imported_at_once(path, known) for path in sources()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as cycle:
        raise AssertionError(f"imported in a circle: {' → '.join(cycle.args[1])}") from cycle
    assert set(order) == known


def undocumented(path: Path) -> list[str]:
    """Public classes, functions and methods without a docstring; what an override does, its parent says."""
    found: list[str] = []
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(path.read_text()))]
    while waiting:
        prefix, parent = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_"):
                continue
            name = f"{prefix}{node.name}"
            if ast.get_docstring(node) is None:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
            if isinstance(node, ast.ClassDef):
                waiting.append((f"{name}.", node))
    return found


def test_every_module_says_what_it_is() -> None:
    assert [str(path) for path in sources() if ast.get_docstring(ast.parse(path.read_text())) is None] == []


def test_the_contract_the_ports_and_the_settings_are_documented() -> None:
    # The parts of the Kafka adapter are nobody's interface but its own.
    events = [
        path
        for path in sources()
        if path.is_relative_to(ROOT / ROOMS["events"]) and not path.name.startswith("kafka_")
    ]
    ports = [path for path in sources() if path.name in {"ports.py", "settings.py"}]
    assert ports
    assert [name for path in {*events, *ports} for name in undocumented(path)] == []
