"""Programs built from Go modules, in groups that share one go.mod. Plain data and pure functions."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainstack.toolchain import go_modules, python_locks
from trainstack.toolchain.places import GO_MODULES

GO_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
"""-trimpath, -buildvcs: the same bytes from any checkout. -mod=readonly: modules without a matching go.sum entry fail.

All groups share the flags: with different ones, shared packages would be compiled again.
"""

LINK_FLAGS = ("-s", "-w")
"""No symbol table and no debugging data: a third of the size."""


@dataclass(frozen=True)
class GoProgram:
    """A program that `go build` makes."""

    name: str
    package: str
    """The import path of its main package; `.` is the group's own main.go."""

    @property
    def binary_name(self) -> str:
        """The file name that `go build` chooses: the last element of the import path that is not a major version."""
        return self.package.rsplit("/", 1)[-1] if not self.package.endswith("/v3") else self.package.split("/")[-2]


Form = Literal["v", "bare", "major", "minor"]
"""Format of a stamped version: `v1.34.4`, `1.34.4`, `1` or `34`."""


@dataclass(frozen=True)
class Stamp:
    """A version that the linker writes into a string variable of the program."""

    variable: str
    pin: str
    """Module in the group's go.mod, or package in the Python lock, that pins the version."""
    form: Form = "v"
    source: Literal["go.mod", "lock"] = "go.mod"


@dataclass(frozen=True, kw_only=True)
class ProgramGroup:
    """Programs that are built together."""

    name: str
    module: str
    """The folder in trainstack/toolchain/go with the go.mod."""
    purpose: str
    programs: tuple[GoProgram, ...]
    seconds: int
    """Build time on 2 cores with empty caches, including downloads."""
    stamps: tuple[Stamp, ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()
    """Name and text of scripts in the programs' folder."""
    for_tests: bool = False
    """Whether only a test needs the group, which then builds it."""


_PROVIDER_GENERATOR = Path(__file__).with_name("provider_sources.py")

_KUBERNETES = "k8s.io/kubernetes"
_KUBE_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")

_KUBERNETES_VARIABLES: tuple[tuple[str, Form], ...] = (
    ("gitVersion", "v"),
    ("gitMajor", "major"),
    ("gitMinor", "minor"),
)
_KUBERNETES_STAMPS = tuple(
    Stamp(f"k8s.io/{package}.{variable}", _KUBERNETES, form)
    for package in ("component-base/version", "client-go/pkg/version")
    for variable, form in _KUBERNETES_VARIABLES
)
"""Without these stamps, kubectl rejects the server's version, and the server reports v0.0.0."""

_LANGUAGE_HOST_SCRIPT = """\
#!/bin/sh
# Pulumi's engine starts this to run a Python program. It takes a host for granted that lies beside it, and warns of any
# other. Which Python (of which checkout) runs the program is said by the variable that the official host reads too.
exec "${PULUMI_PYTHON_CMD:-.venv/bin/python}" -m trainstack.toolchain.language_host "$@"
"""

DEFAULT_KUEUE_MINOR = "v0.19"
"""The minor release of Kueue that the cluster group runs and that environments install by default. Its program places
pods in topologies; those of the others are for tests."""

_JUDGE_SECONDS = {"v0.14": 10, "v0.15": 120, "v0.16": 120, "v0.17": 20, "v0.18": 150, "v0.19": 30}
"""Build time of the programs of Kueue's scheduler, by minor release, in this order: some share compiled packages."""


def _judge_group(minor: str, seconds: int) -> ProgramGroup:
    is_default = minor == DEFAULT_KUEUE_MINOR
    purpose = "places pods in topologies and judges" if is_default else "judges"
    return ProgramGroup(
        name=f"judge-{minor}",
        module=f"judge-{minor}",
        purpose=f"Kueue {minor}'s scheduler as a program, which {purpose} the admission verdicts",
        programs=(GoProgram("kueue-judge" if is_default else f"kueue-judge-{minor}", "."),),
        seconds=seconds,
        for_tests=not is_default,
    )


GROUPS: tuple[ProgramGroup, ...] = (
    ProgramGroup(
        name="engine",
        module="engine",
        purpose="Pulumi's engine",
        programs=(GoProgram("pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"),),
        seconds=190,
        scripts=(("pulumi-language-python", _LANGUAGE_HOST_SCRIPT),),
        stamps=(Stamp("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version", "github.com/pulumi/pulumi/pkg/v3"),),
    ),
    ProgramGroup(
        name="provider",
        module="provider",
        purpose="Pulumi's Kubernetes provider",
        programs=(GoProgram("pulumi-resource-kubernetes", "."),),
        seconds=420,
        # go.mod has only a pseudo-version; the matching SDK's version is the release.
        stamps=(
            Stamp(
                "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version",
                "pulumi-kubernetes",
                "bare",
                "lock",
            ),
        ),
    ),
    ProgramGroup(
        name="kubectl",
        module="cluster",
        purpose="kubectl",
        programs=(GoProgram("kubectl", f"{_KUBERNETES}/cmd/kubectl"),),
        seconds=130,
        stamps=_KUBERNETES_STAMPS,
    ),
    ProgramGroup(
        name="cluster",
        module="cluster",
        purpose="Kubernetes, etcd, Kueue, the training operator, JobSet and Trainer",
        programs=(
            *(GoProgram(name, f"{_KUBERNETES}/cmd/{name}") for name in _KUBE_PROGRAMS),
            GoProgram("etcd", "go.etcd.io/etcd/server/v3"),
            GoProgram("kueue", "sigs.k8s.io/kueue/cmd/kueue"),
            GoProgram("training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1"),
            GoProgram("jobset", "sigs.k8s.io/jobset"),
            GoProgram("trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"),
        ),
        seconds=330,
        stamps=(
            *_KUBERNETES_STAMPS,
            Stamp("sigs.k8s.io/kueue/pkg/version.GitVersion", "sigs.k8s.io/kueue"),
        ),
    ),
    ProgramGroup(name="dns", module="dns", purpose="CoreDNS", programs=(GoProgram("coredns", "."),), seconds=80),
    ProgramGroup(
        name="localpath",
        module="localpath",
        purpose="local-path-provisioner",
        programs=(GoProgram("local-path-provisioner", "github.com/rancher/local-path-provisioner"),),
        seconds=60,
        stamps=(Stamp("main.VERSION", "github.com/rancher/local-path-provisioner"),),
    ),
    ProgramGroup(
        name="kwok",
        module="kwok",
        purpose="KWOK, which simulates nodes",
        programs=(GoProgram("kwok", "sigs.k8s.io/kwok/cmd/kwok"),),
        seconds=70,
        stamps=(Stamp("sigs.k8s.io/kwok/pkg/consts.Version", "sigs.k8s.io/kwok"),),
    ),
    ProgramGroup(
        name="pause",
        module="pause",
        purpose="the pod sandbox's first process",
        programs=(GoProgram("pause", "."),),
        seconds=5,
    ),
    *(_judge_group(minor, seconds) for minor, seconds in _JUDGE_SECONDS.items()),
    ProgramGroup(
        name="kube-score",
        module="kube-score",
        purpose="kube-score, which reviews manifests",
        programs=(GoProgram("kube-score", "github.com/zegl/kube-score/cmd/kube-score"),),
        seconds=35,
        for_tests=True,
    ),
)

GROUPS_BY_NAME: Mapping[str, ProgramGroup] = {group.name: group for group in GROUPS}
GROUP_OF_PROGRAM: Mapping[str, ProgramGroup] = {program.name: group for group in GROUPS for program in group.programs}


def source_files(group: ProgramGroup, root: Path = GO_MODULES) -> dict[str, bytes]:
    folder = root / group.module
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in {".go", ".mod", ".sum"}}


def stamp_value(stamp: Stamp, module: go_modules.GoModule) -> str:
    version = module.version(stamp.pin) if stamp.source == "go.mod" else f"v{python_locks.version(stamp.pin)}"
    major, minor = version.removeprefix("v").split(".")[:2]
    return {"v": version, "bare": version.removeprefix("v"), "major": major, "minor": minor}[stamp.form]


def link_flags(group: ProgramGroup, root: Path = GO_MODULES) -> str:
    module = go_modules.load(root / group.module / "go.mod")
    stamps = (f"-X {stamp.variable}={stamp_value(stamp, module)}" for stamp in group.stamps)
    return " ".join((*LINK_FLAGS, *stamps))


def build_key(group: ProgramGroup, go_version: str, platform: str, root: Path = GO_MODULES) -> str:
    """Return a hash of all inputs of the group's build.

    `go_version` is as printed by `go env GOVERSION`; `platform` is as in `linux-x86_64`.
    """
    inputs = {
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in source_files(group, root).items()},
        "flags": GO_FLAGS,
        "link": link_flags(group, root),
        "programs": [(program.name, program.package) for program in group.programs],
        "scripts": group.scripts,
        "generator": hashlib.sha256(_PROVIDER_GENERATOR.read_bytes()).hexdigest() if group.name == "provider" else "",
        "go": go_version,
        "platform": platform,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
