"""Environments with a few runs each, drawn by a seed. Their runs pass through every state that Kueue has.

All runs of a configuration are in one queue. Another user's Job with a higher priority takes all of its quota, twice:
first the runs wait for it, later it preempts them. There are three workloads:

- `partly` has the lowest priority, and the quota is too small for all of its pods: it is partially admitted;
- `late` is admitted, but its pods are unschedulable until a node gets a label;
- `now` runs as soon as it is admitted.
"""

import random
from dataclasses import dataclass, replace
from typing import Any, Literal

Config = dict[str, Any]
Environment = Literal["owner", "team", "site"]
ENVIRONMENTS: tuple[Environment, ...] = ("owner", "team", "site")
"""Both layers in one stack; a team's stack beside its platform's; a tenant of a cluster that others made."""
COUNT = 20
"""Configurations of each environment."""

Kind = Literal["one", "recorded", "several", "indexed", "distributed", "recorded distributed", "trials", "batch"]
KINDS: tuple[Kind, ...] = (
    "one",
    "recorded",
    "several",
    "indexed",
    "distributed",
    "recorded distributed",
    "trials",
    "batch",
)
"""A Job, unmanaged and managed; of several pods, and of several records; a PyTorchJob, unmanaged and managed; a sweep,
in a Job for each trial and in one for all."""
OF_JOBS: tuple[Kind, ...] = tuple(kind for kind in KINDS if "distributed" not in kind)
"""The kinds of a tenant whose cluster has only Jobs."""

MOUNT = "/mnt/again"
SWEEPS = ("late", "now")
"""Sweeps are called as the workloads that they stand for, and have so many sets each."""
SETS = 2
UNIT = 10
"""In thousandths of a cpu: a pod requests one, two or three units."""
LATE = "again.example.org/late"
"""The prefix of a node label that the pods of `late` require; the name of the configuration follows."""
_SCRIPT = f"""\
told={MOUNT}/told/$NAME
mkdir -p $told
case $HOSTNAME in *-worker-*) ;; *) mktemp $told/begun.XXXXXX ;; esac
trap 'exit 143' TERM
until [ -e {MOUNT}/go ]; do sleep 1; done
case $HOSTNAME in *-worker-*) ;; *) mktemp $told/ended.XXXXXX ;; esac
"""
"""Trains until a file tells it to end, and leaves a file for each time that it began and that it ended. Of a
PyTorchJob its master does so, with whose end the workers are stopped."""


@dataclass(frozen=True)
class Share:
    """One workload of a configuration, with its expected result."""

    name: str
    kind: Kind
    parallelism: int
    """The pods that run at once and record their start and end, when all of them are admitted."""
    completions: int
    """The number of complete trainings: pods that succeed, or trials."""
    launch_count: int
    """Launches."""
    units: int
    """The cpu request of a pod, in multiples of `UNIT`."""
    min_pods: int | None
    """The minimum number of pods for an admission; None: all of them."""
    short_ttl: bool
    """Its own TTL removes it as soon as it has finished."""
    config: Config
    """As an entry of `workloads.runs`, or of `sweeps.sweeps`."""

    @property
    def is_managed(self) -> bool:
        """Whether it is managed, so that the wrapper also keeps a record."""
        return self.kind in ("recorded", "indexed", "recorded distributed", "batch")

    @property
    def is_sweep(self) -> bool:
        """Whether it is a sweep."""
        return self.kind in ("trials", "batch")

    @property
    def pods(self) -> int:
        """The pods that hold quota when all of them are admitted."""
        return {"distributed": 2, "recorded distributed": 2}.get(self.kind, self.parallelism)


@dataclass(frozen=True)
class Configuration:
    """An environment on which `up` runs twice in every state."""

    environment: Environment
    number: int
    partly: Share
    admitted_count: int
    """The pods with which `partly` is admitted: the quota has no room for more."""
    late: Share
    now: Share

    @property
    def name(self) -> str:
        """The name of its stack, its namespace, its flavor and its queues."""
        return f"again-{self.environment}-{self.number}"

    @property
    def queue(self) -> str:
        """Return the name of its local queue; a shared cluster sets the name."""
        return f"{self.name}-user-queue" if self.environment == "site" else self.name

    @property
    def shares(self) -> tuple[Share, ...]:
        """All of it, as it is admitted."""
        return (self.now, self.late, self.partly)

    @property
    def quota(self) -> int:
        """Thousandths of a cpu, for all but a part of `partly`."""
        full = sum(share.pods * share.units for share in (self.now, self.late))
        return UNIT * (full + self.admitted_count * self.partly.units)

    @property
    def description(self) -> str:
        """Return a description in one line."""
        workloads = [f"{share.name}: {share.kind}{' with a TTL' if share.short_ttl else ''}" for share in self.shares]
        return f"{self.name} ({', '.join(workloads)}, admitted with {self.admitted_count} of {self.partly.parallelism})"


def draw(seed: int, environment: Environment, number: int) -> Configuration:
    """Return the configuration of a seed and a number; over all numbers, each kind is both `late` and `now`."""
    kinds = list(KINDS if environment != "site" else OF_JOBS)
    random.Random(f"{seed} {environment}").shuffle(kinds)
    rng = random.Random(f"{seed} {environment} {number}")
    base = Configuration(environment, number, _NONE, 0, _NONE, _NONE)
    late = kinds[number % len(kinds)]
    now = kinds[(number + 1 + number // len(kinds)) % len(kinds)]
    parallelism = rng.randint(3, 4)
    admitted_count = rng.randint(1, parallelism - 1)
    expiring = rng.choice(("partly", "late", "now"))
    several = {
        "parallelism": parallelism,
        "completions": parallelism + rng.randint(0, 1),
        "min_pods": rng.randint(1, admitted_count),
    }
    return replace(
        base,
        partly=_share(
            base, rng, "partly", rng.choice(("several", "indexed")), short_ttl=expiring == "partly", **several
        ),
        admitted_count=admitted_count,
        late=_share(base, rng, "late", late, short_ttl=expiring == "late"),
        now=_share(base, rng, "now", now, short_ttl=expiring == "now"),
    )


def _share(
    configuration: Configuration, rng: random.Random, name: str, kind: Kind, *, short_ttl: bool, **counts: int
) -> Share:
    completions = counts.get("completions") or {
        "several": rng.randint(2, 3),
        "indexed": 2,
        "trials": SETS,
        "batch": SETS,
    }.get(kind, 1)
    parallelism = counts.get("parallelism") or (
        rng.randint(1, completions) if kind in ("several", "batch") else completions
    )
    share = Share(
        name=name,
        kind=kind,
        parallelism=parallelism,
        completions=completions,
        launch_count=SETS if kind == "trials" else 1,
        units=rng.randint(1, 3),
        min_pods=counts.get("min_pods"),
        short_ttl=short_ttl,
        config={},
    )
    run = _run(configuration, share, rng)
    if not share.is_sweep:
        return replace(share, config=run)
    sweep = {"name": name, "run": {key: value for key, value in run.items() if key != "name"}}
    indexed = {"form": "indexed", "parallelism": parallelism} if kind == "batch" else {}
    return replace(share, config={**sweep, **indexed})


def _run(configuration: Configuration, share: Share, rng: random.Random) -> Config:
    """Return the workload; fields that do not affect its states are random."""
    ttl = {"ttlSecondsAfterFinished": 1} if share.short_ttl else rng.choice(({}, {"ttlSecondsAfterFinished": 86400}))
    run: Config = {
        "name": share.name,
        "kind": "PyTorchJob" if "distributed" in share.kind else "Job",
        "namespace": configuration.name,
        "queue": configuration.queue,
        "priority": "low" if share.name == "partly" else "normal",
        "managed": share.is_managed,
        "image": {"build": "workloads/digits"} if share.is_managed else {"name": "busybox:1.35"},
        "command": ["sh", "-c", _SCRIPT],
        "env": {"NAME": share.name},
        "volumes": [{"volume": "again", "mountPath": MOUNT}],
        "resources": {"requests": {"cpu": f"{share.units * UNIT}m", "memory": rng.choice(("32Mi", "48Mi"))}},
        "runAsUser": 1000,
        "backoffLimit": rng.randint(0, 3),
        **ttl,
    }
    if share.is_managed:
        run["record"] = {"volume": "again", "path": rng.choice(("runs", "kept/runs"))}
    if "distributed" in share.kind:
        run["roles"] = {"Master": {}, "Worker": {}}
    if share.kind in ("several", "indexed"):
        run |= {"completions": share.completions, "parallelism": share.parallelism}
    if share.min_pods is not None:
        run["minParallelism"] = share.min_pods
    if share.name == "late":
        run["nodeSelector"] = {f"{LATE}-{configuration.name}": "yes"}
    return {**run, **_drawn_extras(configuration, share, rng)}


def _drawn_extras(configuration: Configuration, share: Share, rng: random.Random) -> Config:
    names = ["derived", "generated"] if share.is_sweep else ["derived", "generated", "fixed"]
    # A site that demands generated names demands them of all.
    extras: Config = {"naming": "generated" if configuration.environment == "site" else rng.choice(names)}
    if rng.random() < 0.5:
        extras["labels"] = {"again.example.org/drawn": str(rng.randint(0, 9))}
    if rng.random() < 0.5:
        extras["sharedMemory"] = "16Mi"
    if rng.random() < 0.5:
        extras["seed"] = rng.randint(0, 9)
    if "distributed" not in share.kind and share.kind != "batch" and rng.random() < 0.5:
        extras["activeDeadlineSeconds"] = 86400
    return extras


_NONE = Share("", "one", 0, 0, 0, 0, None, short_ttl=False, config={})
