"""The gateway's config file of a demo: three targets, one flat pool, two tenants, one route. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.gateway.credentials import key_digest
from tidegate.runtime.demo.providers import (
    FLAT,
    MODEL,
    PROVIDERS,
    Plan,
    list_price,
    pool_windows,
)
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.demo.workload import TENANTS

ROUTE = "coder"
SECRET_VARIABLE = "TIDEGATE_DEMO_KEY"  # noqa: S105 - its name, not the secret
POOL = "plan"
_HEADER_S, _FIRST_TOKEN_S, _IDLE_S = 60.0, 120.0, 60.0
_LEAST_DEADLINE_S = 5.0


class LogChoice(NamedTuple):
    """Which log the demo runs on; without `bootstrap` the embedded one."""

    bootstrap: str | None = None
    prefix: str = ""
    replication: int = 1

    def table(self) -> dict[str, Any]:
        """The `[log]` table."""
        if self.bootstrap is None:
            return {"kind": "sqlite"}
        return {
            "kind": "kafka",
            "bootstrap": self.bootstrap,
            "topic_prefix": self.prefix,
            "replication": self.replication,
        }


def gateway_config(
    ports: Mapping[str, int], keys: Mapping[str, str], plan: Plan, speed: float, log: LogChoice
) -> str:
    """The TOML file. `ports` are the simulator's by provider, `keys` the API keys by tenant; only digests of
    these are written. Listeners take free ports."""
    return dumps(
        {
            "data_dir": "data",
            "gateway": {"port": 0},
            "admin": {"port": 0},
            "log": log.table(),
            "tenants": [{"id": tenant} for tenant in TENANTS],
            "keys": [
                {"id": f"{tenant}-key", "tenant": tenant, "digest": key_digest(keys[tenant])}
                for tenant in TENANTS
            ],
            "pools": [{"id": POOL, "billing": "flat", "windows": pool_windows(plan, speed)}],
            "targets": [_target(name, ports[name], speed) for name in PROVIDERS],
            "routes": [
                {
                    "name": ROUTE,
                    "strategy": "cheapest",
                    "candidates": [{"target": name} for name in PROVIDERS],
                }
            ],
        }
    )


def _target(name: str, port: int, speed: float) -> dict[str, Any]:
    return {
        "id": name,
        "dialect": "openai",
        "base_url": f"http://127.0.0.1:{port}",
        "model": MODEL,
        "secret": f"env:{SECRET_VARIABLE}",
        "allow_private": True,
        # The simulator is told how long each answer of the trace was.
        "forward_headers": ["x-sim-output-tokens"],
        **({"pool": POOL} if name == FLAT else {}),
        # Never so short that a busy machine, which no speed makes faster, would pass for a silent provider.
        "deadlines": {
            "header_s": max(_LEAST_DEADLINE_S, _HEADER_S / speed),
            "first_token_s": max(_LEAST_DEADLINE_S, _FIRST_TOKEN_S / speed),
            "idle_s": max(_LEAST_DEADLINE_S, _IDLE_S / speed),
        },
        "prices": [list_price(name)],
    }
