"""`python -m tidegate.simulator --config FILE`: the simulator as a process of its own."""

import argparse
import asyncio
import sys
from pathlib import Path

import uvloop

from tidegate.simulator.loading import ConfigError
from tidegate.simulator.main import main_async


def main() -> int:
    """Exit code 0 after a signal, 2 when the configuration or a port cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m tidegate.simulator", description=__doc__)
    parser.add_argument(
        "--config", type=Path, required=True, help="TOML file, see docs/reference/simulator.md"
    )
    parser.add_argument("--ready-file", type=Path, help="gets the line with the ports once all are open")
    options = parser.parse_args()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main_async(options.config, options.ready_file))
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"simulator: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
