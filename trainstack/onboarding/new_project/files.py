"""The files of a new project, and the renewal of the generated ones. Pure.

The first line of a generated file has a digest of the other lines at that time. The file is unedited if they still have
this digest, and up to date if the present template results in it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import jinja2

from trainstack.errors import TrainstackError
from trainstack.onboarding.new_project.origin import Origin
from trainstack.onboarding.new_project.release import PinnedRelease
from trainstack.onboarding.new_project.request import ProjectRequest, find_faults
from trainstack.onboarding.new_project.services import SERVICES
from trainstack.settings.values.stack_name import stack_file

WORKLOAD = "hello"
"""The name of the workload and of its run."""
ORIGIN_FILE = "requirements-trainstack.txt"
"""The file with Trainstack itself; requirements.txt has what it depends on."""
OWNED_FILES = (
    "Pulumi.yaml",
    "__main__.py",
    "requirements.txt",
    ORIGIN_FILE,
    ".github/workflows/trainstack.yml",
    ".gitignore",
)
"""The files that `trainstack init --upgrade` renews. All other files belong to the user from the beginning."""
_STAMP = re.compile(r"# Written by `trainstack init`; `trainstack init --upgrade` renews it unless edited\. (\w{16})\n")
_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESERVED_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


@dataclass(frozen=True)
class Installation:
    """The Trainstack that a project's workflow installs."""

    origin: Origin
    dependencies: str
    """Lines of a requirements file with a hash for each file."""


Outcome = Literal["renewed", "unchanged", "edited", "missing"]


@dataclass(frozen=True)
class OwnedFileUpdate:
    """The update of an owned file. Edited and deleted files stay as they are, even if the template has changed."""

    outcome: Outcome
    text: str
    """The text of the present template."""


def build_new_files(
    request: ProjectRequest,
    installation: Installation,
    releases: Mapping[str, PinnedRelease] = MappingProxyType({}),
    *,
    virtualenv: bool,
) -> dict[str, str]:
    """Return the texts of the files by their paths.

    `releases`: those that an owner's project installs, by operator; `trainstack up` builds the others. With
    `virtualenv`, the engine uses the project's `.venv`. Raises TrainstackError with all faults of the request.
    """
    if violations := list(find_faults(request)):
        raise TrainstackError("\n".join(violations))
    values = {"request": request, "service": SERVICES[request.cluster], "workload": WORKLOAD, "releases": releases}
    return {
        **build_owned_files(request.name, installation, virtualenv=virtualenv),
        stack_file(request.stack): _render("environment.yaml", **values),
        f"workloads/{WORKLOAD}/workload.yaml": _render("workload.yaml", **values),
    }


def build_owned_files(name: str, installation: Installation, *, virtualenv: bool) -> dict[str, str]:
    """Return the texts of the owned files by their paths. The parameters are those of `build_new_files`."""
    values = {"name": name, **vars(installation), "virtualenv": virtualenv}
    return {path: _with_stamp(_render(path.rpartition("/")[2].lstrip("._"), **values)) for path in OWNED_FILES}


def renew_owned_files(
    existing_texts: Mapping[str, str], generated_texts: Mapping[str, str]
) -> dict[str, OwnedFileUpdate]:
    """Return the update of each owned file. `existing_texts` are the texts of the existing files by path."""
    return {
        path: OwnedFileUpdate(_outcome(existing_texts.get(path), text), text) for path, text in generated_texts.items()
    }


def _outcome(existing_text: str | None, generated_text: str) -> Outcome:
    if existing_text is None:
        return "missing"
    # Git may have converted the line endings.
    existing_text = existing_text.replace("\r\n", "\n")
    stamp = _STAMP.match(existing_text)
    if existing_text == generated_text or (stamp is not None and generated_text.startswith(stamp[0])):
        return "unchanged"
    return "renewed" if stamp is not None and stamp[1] == _digest(existing_text[stamp.end() :]) else "edited"


def _with_stamp(body: str) -> str:
    return (
        f"# Written by `trainstack init`; `trainstack init --upgrade` renews it unless edited. {_digest(body)}\n{body}"
    )


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


@cache
def _template_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trainstack.onboarding.new_project"),
        undefined=jinja2.StrictUndefined,
        # GitHub's expressions have braces.
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  no HTML: every value passes `_scalar`, or is a constant
    )
    environment.filters["yaml"] = _scalar
    return environment


def _render(template: str, **values: Any) -> str:
    return _template_environment().get_template(f"{template}.j2").render(**values)


def _scalar(text: str) -> str:
    """Return a string as a YAML scalar that every parser reads as a string, such as `"1e5"` or `"null"`."""
    return text if _PLAIN_SCALAR.fullmatch(text) and text.lower() not in _RESERVED_WORDS else json.dumps(text)
