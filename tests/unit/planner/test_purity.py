"""Pure modules import no clock, randomness, loop or arithmetic that differs between machines."""

import ast
from pathlib import Path

import pytest

import tidegate.events.causes
import tidegate.events.cooldown
import tidegate.events.quota
import tidegate.planner.decide

ROOM = Path(tidegate.planner.decide.__file__).parent
PURE = [
    *(
        ROOM / f"{name}.py"
        for name in (
            "admission",
            "appraise",
            "beliefs",
            "decide",
            "demand",
            "explain",
            "facts",
            "held",
            "order",
            "overlay",
            "panic",
            "places",
            "price",
            "replay",
            "rng",
            "uses",
            "uvi",
            "view",
            "warm",
            "windows",
        )
    ),
    Path(tidegate.events.quota.__file__),
    Path(tidegate.events.causes.__file__),
    Path(tidegate.events.cooldown.__file__),
]
FORBIDDEN = {
    "time",
    "random",
    "asyncio",
    "numpy",
    "math",
    "cmath",
    "statistics",
    "datetime",
    "os",
    "secrets",
    "uuid",
}
IMPURE_OF_OURS = {"tidegate.events.clock", "tidegate.events.ids"}


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_a_pure_module_imports_nothing_that_differs_between_runs_or_machines(path: Path) -> None:
    names = imported(ast.parse(path.read_text()))
    assert not {name.split(".")[0] for name in names} & FORBIDDEN
    assert not names & IMPURE_OF_OURS


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_a_pure_module_is_synchronous_and_uses_no_power(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_a_pure_module_iterates_over_no_set(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.For | ast.comprehension):
            assert not isinstance(node.iter, ast.Set | ast.SetComp)
            if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name):
                assert node.iter.func.id not in {"set", "frozenset"}


def test_every_module_of_the_room_is_listed_pure_or_named_here() -> None:
    shells = {"__init__", "follower", "planner"}
    assert {path.stem for path in ROOM.glob("*.py")} == {
        path.stem for path in PURE if path.parent == ROOM
    } | shells
