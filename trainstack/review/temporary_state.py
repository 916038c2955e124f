"""A temporary state of the engine for the preview of a stack without a state, which a preview must not create."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trainstack.files.temporary import temporary_folder
from trainstack.review.errors import EngineError

MISSING_STACK_MESSAGE = "no stack named"
"""A part of the engine's message about a stack without a state."""


@contextmanager
def temporary_state(
    root: Path, stack: str, pulumi: str | Path, variables: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield the variables that replace the stack's state with a temporary one.

    The engine writes the salt of the new passphrase into the stack's file, so the file is copied.

    Args:
        root: the project's folder.
        stack: a stack with a file in `root`.
        pulumi: the path of the engine's program, or its name on PATH.
        variables: all variables of the engine's process.

    Raises:
        EngineError: the engine cannot create the state.

    """
    file = f"Pulumi.{stack}.yaml"
    with temporary_folder() as folder:
        (folder / "state").mkdir()
        for file_name in ("Pulumi.yaml", file):
            shutil.copyfile(root / file_name, folder / file_name)
        state = {"PULUMI_BACKEND_URL": (folder / "state").as_uri()}
        completed = subprocess.run(
            [pulumi, "stack", "init", stack, "--no-select", "--non-interactive"],
            cwd=folder, env={**variables, **state}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if completed.returncode:
            raise EngineError(completed.stderr.strip() or completed.stdout.strip())
        # The default of the engine's option `--config-file`.
        yield {**state, "PULUMI_OPTION_CONFIG_FILE": str(folder / file)}
