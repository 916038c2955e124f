"""`trainstack sweep`: from a search space in git to the best parameter set."""

import typer

from cli import sweep_expand, sweep_next

app = typer.Typer(no_args_is_help=True, help="Sweeps: from a search space in git to the best parameter set.")
app.command()(sweep_expand.expand)
app.command("next")(sweep_next.next_sets)
