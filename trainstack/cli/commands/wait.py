from typing import Annotated

import typer

from trainstack.cli.follow import follow
from trainstack.cli.run_options import OptionalRun
from trainstack.cli.session import JsonOption, Session, StackOption

MOST_SECONDS = 366 * 24 * 3600
"""Maximum of `wait --timeout`."""


def wait(
    run: OptionalRun = None,
    *,
    stack: StackOption,
    timeout: Annotated[int, typer.Option(min=0, max=MOST_SECONDS, help="Maximum time to wait, in seconds.")] = 86400,
    as_json: JsonOption = False,
) -> None:
    """Wait until a run, or all runs, have ended; exit with 1 if one failed.

    A Pod with restartPolicy Always is awaited until its program has succeeded once.

    --json prints the ended runs, including failed ones, in the format of `status --json`.

    Examples:
      trainstack wait -s dev
      trainstack wait digits-0f3c9a1b2d -s dev --timeout 600
      trainstack wait digits -s dev --json
    """
    follow(Session.open(stack), run, timeout, as_json=as_json)
