"""The command `tidegate`."""

import sys

import typer

from tidegate.events.errors import TidegateError
from tidegate.runtime.commands import analytics, configs, demo, logs, prices, reconcile, roles, targets
from tidegate.runtime.commands.shared import CANNOT_RUN, reason_of, tell

app = typer.Typer(
    name="tidegate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Event-sourced LLM routing gateway: cheapest viable upstream, exact ledgers, bit-exact replay.",
)
roles.register(app)
logs.register(app)
analytics.register(app)
reconcile.register(app)
demo.register(app)
app.add_typer(configs.config_app, name="config")
app.add_typer(configs.keys_app, name="keys")
app.add_typer(prices.prices_app, name="prices")
app.add_typer(targets.targets_app, name="targets")


def main() -> None:
    """Entry point of the console command. What is wrong with a folder or file, and no command foresaw, is one line
    too and exits with 2; only our own mistakes are traced back."""
    try:
        app()
    except (TidegateError, OSError) as error:
        tell(reason_of(error))
        sys.exit(CANNOT_RUN)
