"""The command `tidegate`."""

import typer

from tidegate.runtime.commands import analytics, configs, demo, logs, prices, reconcile, roles, targets

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
    """Entry point of the console command."""
    app()
