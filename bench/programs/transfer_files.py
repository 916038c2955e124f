"""Send or fetch files through a running data loader, without the loader's start.

python -m bench.programs.transfer_files upload|fetch NAMESPACE POD LOCAL REMOTE
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainstack.transfer.fetch import fetch
from trainstack.transfer.loader import Loader
from trainstack.transfer.progress import Advance
from trainstack.transfer.upload import upload


class Silent:
    """Shows no progress: kubectl shows none either."""

    def info(self, _: str, /) -> None: ...

    def warn(self, message: str, /) -> None:
        sys.stderr.write(f"{message}\n")

    @contextmanager
    def step(self, _: str, __: str, /) -> Iterator[None]:
        yield

    @contextmanager
    def bar(self, _: str, __: int, /) -> Iterator[Advance]:
        yield lambda _: None

    count = bar


def main(verb: str, namespace: str, pod: str, local: str, remote: str) -> None:
    loader = Loader(namespace, pod, None, Silent())
    if verb == "upload":
        upload(loader, Path(local), remote)
    else:
        fetch(loader, remote, Path(local))


if __name__ == "__main__":
    main(*sys.argv[1:])
