"""The command `trainstack`: everything that people do with an environment day by day."""

import typer

from cli import (
    adopt,
    check,
    cluster,
    compare,
    deploy,
    events,
    files,
    logs,
    pin,
    plan,
    render,
    runs,
    status,
    sweep,
    teams,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Training infrastructure as code: storage, queues, operators and training runs on Kubernetes.",
)
app.command()(deploy.up)
app.command()(deploy.destroy)
app.command()(deploy.env)
app.command()(check.check)
app.command()(plan.plan)
app.command()(render.render)
app.command()(pin.pin)
app.command()(status.status)
app.command()(runs.wait)
app.command()(logs.logs)
app.command()(events.events)
app.command()(files.upload)
app.command()(files.ls)
app.command()(files.fetch)
app.command()(compare.compare)
app.command()(teams.add_team)
app.command()(adopt.adopt)
app.add_typer(sweep.app, name="sweep")
app.add_typer(cluster.app, name="cluster")


def main() -> None:
    """Run it."""
    app()
