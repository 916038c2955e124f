"""Definitions of the kinds whose operators environments do not install, from the Go modules that Kueue requires."""

from typing import Any

import yaml
from rich.console import Console

from trainstack.runs.status.launch_kinds import KINDS
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

FILES = {
    "MPIJob": ("github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
    "RayJob": ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/ray.io_rayjobs.yaml"),
}
"""The module and the file in it, by kind."""


def definition(kind: str, file: str = "") -> dict[str, Any]:
    """Return the definition with only the version used here. `go mod download` has verified the file.

    `file`: another file of the kind's module, with a definition of the same version.
    """
    builder = Builder(go_toolchain.ensure(Console(stderr=True)))
    module, default_file = FILES[kind]
    folder = builder.module_folder(GROUPS_BY_NAME["cluster"], module)
    text = (folder / (file or default_file)).read_text(encoding="utf-8")
    body: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    used = KINDS[kind].api_version.partition("/")[2]
    versions = [version for version in body["spec"]["versions"] if version["name"] == used]
    return {**body, "spec": {**body["spec"], "versions": versions}}
