"""Kueue's own code as a program (docs/decisions/0018-second-judge.md), where it has been built."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainstack.kueue.placement import JudgeError
from trainstack.toolchain import go_modules, judges, tools
from trainstack.toolchain.errors import MissingTool
from trainstack.toolchain.groups import GROUP_OF_PROGRAM
from trainstack.toolchain.places import GO_MODULES

Body = Mapping[str, Any]
_PROGRAM = "kueue-judge"
_KUEUE = "sigs.k8s.io/kueue"
_SECONDS = 60
"""The timeout: far more than a thousand workloads take."""

_MEMORY_VARIABLES = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
"""The program ends soon, so it collects no garbage below this limit."""


@dataclass(frozen=True)
class JudgeProgram:
    """The program for one release of Kueue."""

    path: Path
    release: str

    def ask(self, cases: Sequence[Body]) -> list[Body]:
        text = json.dumps(cases)
        try:
            result = subprocess.run(
                [self.path],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                env={**os.environ, **_MEMORY_VARIABLES},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JudgeError(f"kueue-judge failed: {error}") from error
        if result.returncode != 0:
            raise JudgeError(f"kueue-judge failed: {result.stderr.strip()[-300:]}")
        try:
            answers = json.loads(result.stdout)
        except ValueError as error:
            raise JudgeError(f"kueue-judge does not answer in JSON: {error}") from error
        if not isinstance(answers, list) or len(answers) != len(cases):
            raise JudgeError(f"kueue-judge does not answer {len(cases)} cases with as many answers")
        return answers


def judged_release() -> str:
    """Return the release of Kueue whose code the program has, such as `v0.15.2`."""
    return go_modules.load(GO_MODULES / GROUP_OF_PROGRAM[_PROGRAM].module / "go.mod").version(_KUEUE)


def kueue_judge(release: str) -> JudgeProgram | str:
    """Return the program for a release of Kueue, or the reason why it is missing."""
    built_release = judged_release()
    if release != built_release:
        if (path := judges.find_judge(release)) is not None:
            return JudgeProgram(path, release)
        return f"kueue-judge is of Kueue {built_release}, not of {release or 'an unknown release'}"
    try:
        return JudgeProgram(tools.program(_PROGRAM), release)
    except MissingTool:
        return f"kueue-judge has not been built (trainstack dev tools {GROUP_OF_PROGRAM[_PROGRAM].name})"
