import typer

from trainstack.cli.commands import sweep_expand, sweep_next, sweep_report, sweep_results, sweep_status

app = typer.Typer(no_args_is_help=True, help="Search for the best parameter set: expand, follow and compare sweeps.")
app.command()(sweep_expand.expand)
app.command("next")(sweep_next.next_sets)
app.command()(sweep_status.status)
app.command()(sweep_results.results)
app.command()(sweep_results.best)
app.command()(sweep_report.report)
