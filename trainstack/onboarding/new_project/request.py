"""A request for a new project, and its validation. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainstack.onboarding.new_project.services import SERVICES
from trainstack.settings.values.stack_name import stack_name_fault

PROFILES = ("owner", "tenant")
_PROJECT = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""Source: ValidateProjectName in sdk/go/common/tokens/names.go of Pulumi."""
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DEFAULT_NAMESPACE = "training"


@dataclass(frozen=True, kw_only=True)
class ProjectRequest:
    """The values of a new project that do not follow from the cluster's service."""

    name: str
    """The project's name in Pulumi.yaml."""
    environment: str | None = None
    """The name of the environment, which must be unique among the states on the cluster. The default is `dev` for an
    owner, and the name of the namespace for a tenant."""
    profile: str
    cluster: str
    """A key of `SERVICES`."""
    namespace: str | None = None
    """The namespace of the run; by default `training`."""
    queue: str | None = None
    """The LocalQueue of the run. By default, an owner's project declares one with the namespace's name."""

    @property
    def stack(self) -> str:
        return self.environment or (self.run_namespace if self.profile == "tenant" else "dev")

    @property
    def embedded(self) -> bool:
        """Whether the state is in the project's folder: only this machine deploys to its cluster."""
        return self.cluster == "kind"

    @property
    def run_namespace(self) -> str:
        return self.namespace or _DEFAULT_NAMESPACE

    @property
    def run_queue(self) -> str:
        return self.queue or self.run_namespace


def find_faults(request: ProjectRequest) -> Iterator[str]:
    """Yield the faults of a request, with remedies."""
    if not _PROJECT.fullmatch(request.name):
        yield (
            f"{request.name!r} is not a valid name for a Pulumi project; use --name with at most 100 letters, digits, "
            "'-', '_' and '.'"
        )
    if request.environment is not None and (name_fault := stack_name_fault(request.environment)) is not None:
        yield str(name_fault)
    for option, value in (("--namespace", request.namespace), ("--queue", request.queue)):
        if value is not None and not _DNS_LABEL.fullmatch(value):
            yield (
                f"{option} {value!r} is not a valid name; use at most 63 lower-case letters, digits and '-', with a "
                "letter or digit at both ends"
            )
    for option, choice, choices in (
        ("--profile", request.profile, PROFILES),
        ("--cluster", request.cluster, SERVICES),
    ):
        if choice not in choices:
            yield f"{option} {choice!r} is unknown; use one of {', '.join(choices)}"
    if request.profile == "tenant" and not (request.namespace and request.queue):
        yield (
            "a tenant's project uses an existing namespace and queue; name them with --namespace and --queue "
            "(`kubectl get localqueues --all-namespaces` lists both)"
        )
