"""Runs the simulator until a signal ends it, and says on which ports its providers listen."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from tidegate.simulator.loading import load
from tidegate.simulator.server import start


async def main_async(config_path: Path, ready_file: Path | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Once every port is open, a JSON line `{"ports": {provider: port}}` goes to standard output and, where
    given, to `ready_file`, which then appears whole. Raises ConfigError, OSError.
    """
    config = load(config_path)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    simulator = await start(config)
    try:
        _announce(simulator.ports, ready_file)
        await ended.wait()
    finally:
        await simulator.stop()


def _announce(ports: dict[str, int], ready_file: Path | None) -> None:
    line = json.dumps({"ports": ports}) + "\n"
    if ready_file is not None:
        draft = ready_file.with_name(ready_file.name + ".draft")
        draft.write_text(line, encoding="utf-8")
        draft.replace(ready_file)
    sys.stdout.write(line)
    sys.stdout.flush()
