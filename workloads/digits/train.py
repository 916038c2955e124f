"""Entry of the training program: `python3 /opt/digits/train.py --help`.

torch is imported late: the import takes seconds, and a stop in that time must not be lost.
"""

import sys

from .errors import ProgramError
from .options import parse
from .stopping import StopSignal


def main() -> int:
    """Exit codes: 0 trained, 2 something to put right (see stderr), 143 stopped by SIGTERM (start again to go on)."""
    options = parse()
    stop = StopSignal()
    from .training import run  # noqa: PLC0415 (see above)

    try:
        return run(options, stop)
    except ProgramError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2


if __name__ == "__main__":
    sys.exit(main())
