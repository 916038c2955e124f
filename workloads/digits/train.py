"""The entry point of the training program: `python3 /opt/digits/train.py --help`.

torch is imported after the signal handler is installed, because the import takes seconds.
"""

import sys

from .errors import ProgramError
from .options import parse
from .stopping import StopSignal


def main() -> int:
    """Train, and return the exit code: 0; 2 after an error message on stderr; 143 if SIGTERM stopped the training."""
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
