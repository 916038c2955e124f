"""Run Kueue's own unit tests, and record what they lay down and what Kueue decides.

The tests' cases are values in memory, so the module is copied, and calls that write JSON are inserted where the cache
takes objects, flavors are assigned, preemption targets are searched, a queue's head is taken, and a cycle
begins and ends. Nothing else changes:
the tests must pass with the calls. Go refuses `-overlay` for files of its module cache.
"""

import hashlib
import json
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console

from trainstack.kueue.differences import V15
from trainstack.toolchain import digests, go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import ToolchainError
from trainstack.toolchain.groups import GROUPS_BY_NAME, LINK_FLAGS, ProgramGroup, source_files
from trainstack.toolchain.places import cache_root
from trainstack.toolchain.process_lock import hold_lock

KUEUE = "sigs.k8s.io/kueue"
OVERLAY = Path(__file__).with_name("overlay")
"""Files that are added to the module, by their paths in it."""

TESTS: Mapping[str, str] = {
    "pkg/scheduler/flavorassigner": "TestAssignFlavors|TestReclaimBeforePriorityPreemption|TestDeletedFlavors|"
    "TestHierarchical",
    "pkg/scheduler/preemption": "TestPreemption|TestHierarchicalPreemptions|TestFairPreemptions",
    "pkg/cache/queue": "TestFIFOClusterQueue|TestStrictFIFO|TestHeads",
    "pkg/scheduler": "TestSchedule|TestLastSchedulingContext",
}
"""Test functions by package."""

_ATTEMPTS = 3
"""Of a package's tests: on a busy machine, upstream's tests of preemptions by merge patches fail now and then."""

_IMPORT = ("import (\n", 'import (\n\t"sigs.k8s.io/kueue/pkg/tables"\n')
_ASSIGN = "func (a *FlavorAssigner) Assign(log logr.Logger, counts []int32) Assignment"
_TARGETS = (
    "func (p *Preemptor) GetTargets(log logr.Logger, wl workload.Info, assignment flavorassigner.Assignment, "
    "snapshot *schdcache.Snapshot) []*Target"
)
_QUEUE = (
    "func newClusterQueueImpl(ctx context.Context, client client.Client, wo workload.Ordering, clock clock.Clock, "
    "opts ...clusterQueueOption) *ClusterQueue"
)
_CYCLE = "func (s *Scheduler) schedule(ctx context.Context) wait.SpeedSignal"
_CACHE = (
    ("AddOrUpdateResourceFlavor(log logr.Logger, rf *kueue.ResourceFlavor) @", "object", "ResourceFlavor", "rf"),
    ("AddClusterQueue(ctx context.Context, cq *kueue.ClusterQueue) error", "object", "ClusterQueue", "cq"),
    ("UpdateClusterQueue(log logr.Logger, cq *kueue.ClusterQueue) error", "object", "ClusterQueue", "cq"),
    ("DeleteClusterQueue(cq *kueue.ClusterQueue)", "deleted", "ClusterQueue", "cq"),
    ("AddOrUpdateCohort(apiCohort *kueue.Cohort) error", "object", "Cohort", "apiCohort"),
    ("AddOrUpdateAdmissionCheck(log logr.Logger, ac *kueue.AdmissionCheck) @", "object", "AdmissionCheck", "ac"),
)
"""Functions of the cache with the event, the kind and the argument; @: the names of cluster queues."""


def _in_cache(function: str, event: str, kind: str, argument: str) -> tuple[str, str]:
    head = f"func (c *Cache) {function.replace('@', 'sets.Set[kueue.ClusterQueueReference]')} {{\n"
    return head, f'{head}\ttables.Object("{event}", "{kind}", {argument})\n'


def _wrapped(signature: str, call: str, inner: str) -> tuple[str, str]:
    """Replace a function by a call; the function itself gets the name `inner`."""
    name = signature.partition(") ")[2].partition("(")[0]
    renamed = signature.replace(f") {name}(", f") {inner}(")
    return f"{signature} {{\n", f"{signature} {{\n\treturn {call}\n}}\n\n{renamed} {{\n"


INSERTIONS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "pkg/util/testing/context.go": (
        _IMPORT,
        ("\tlogger := NewLogger(t)\n\treturn", "\ttables.Begin(t.Name())\n\tlogger := NewLogger(t)\n\treturn"),
    ),
    "pkg/cache/scheduler/cache.go": (_IMPORT, *(_in_cache(*function) for function in _CACHE)),
    "pkg/cache/queue/cluster_queue.go": (
        _IMPORT,
        (f"{_QUEUE} {{\n", f'{_QUEUE} {{\n\ttables.Write("ordering", wo)\n'),
        _wrapped(
            "func (c *ClusterQueue) Pop() *workload.Info",
            "writeHead(c, func() *workload.Info { return c.pop() })",
            "pop",
        ),
    ),
    "pkg/scheduler/flavorassigner/flavorassigner.go": (
        _wrapped(
            _ASSIGN,
            "writeAssignment(a, counts, func() Assignment { return a.assign(log, counts) })",
            "assign",
        ),
    ),
    "pkg/scheduler/preemption/preemption.go": (
        _IMPORT,
        ("\tp := &Preemptor{\n", '\ttables.Write("fairSharing", fs)\n\tp := &Preemptor{\n'),
        _wrapped(
            _TARGETS,
            "writeTargets(p, wl, assignment, snapshot, func() []*Target {\n"
            "\t\treturn p.findTargets(log, wl, assignment, snapshot)\n\t})",
            "findTargets",
        ),
    ),
    "pkg/scheduler/scheduler.go": (
        _wrapped(_CYCLE, "writeCycle(ctx, s, func() wait.SpeedSignal { return s.cycle(ctx) })", "cycle"),
        (
            "\t// 6. Requeue the heads that were not scheduled.\n",
            "\twriteHeads(entries, inadmissibleEntries)\n\t// 6. Requeue the heads that were not scheduled.\n",
        ),
    ),
}
"""Text to replace, which each file has once, and the text that replaces it. Of the pinned release."""

_ORDERING = ("\treturn &ClusterQueue{\n", '\ttables.Write("ordering", wo)\n\treturn &ClusterQueue{\n')
_QUEUES = "pkg/cache/queue/cluster_queue.go"
_CONTEXT = "pkg/util/testing/context.go"
_OTHER_INSERTIONS: Mapping[str, Mapping[str, tuple[tuple[str, str], ...]]] = {
    "v0.14": {_QUEUES: (_IMPORT, _ORDERING, INSERTIONS[_QUEUES][-1])},
    "v0.17": {
        _CONTEXT: (
            _IMPORT,
            ("\tlogger := NewLogger(tb)\n", "\ttables.Begin(tb.Name())\n\tlogger := NewLogger(tb)\n"),
        ),
    },
}
"""By minor release, where they differ."""
_OTHER_CALLS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "v0.14": (
        ("sigs.k8s.io/kueue/apis/kueue/v1beta2", "sigs.k8s.io/kueue/apis/kueue/v1beta1"),
        ("s.fairSharing != nil", "s.fairSharing.Enable"),
        # Its queues have no sticky workload.
        ("\t\tif key := workload.Key(info.Obj); c.sw.matches(key) {\n\t\t\tsticky = string(key)\n\t\t}\n", ""),
    ),
}
"""Text to replace in the added files, by minor release."""


def insertions(minor: str) -> Mapping[str, tuple[tuple[str, str], ...]]:
    return {**INSERTIONS, **_OTHER_INSERTIONS.get(minor, {})}


def dumps(minor: str = V15.minor, console: Console | None = None) -> Mapping[str, Path]:
    """Return the files of JSON lines by package; build and run the tests of a release if no run is cached."""
    console = console or Console(stderr=True, markup=False, emoji=False)
    builder = Builder(go_toolchain.ensure(console))
    folder = cache_root() / "tables" / _key(minor, builder.go.version)
    with hold_lock(cache_root() / "locks" / f"tables-{minor}", console):
        if not folder.is_dir():
            _make(minor, builder, folder)
    digests.verify(folder)
    return {package: folder / f"{package.rsplit('/', 1)[-1]}.jsonl" for package in TESTS}


def _group(minor: str) -> ProgramGroup:
    """Return the group whose lock has the release."""
    return GROUPS_BY_NAME[f"judge-{minor}"]


def _key(minor: str, go_version: str) -> str:
    """Return a hash of all that the dump depends on."""
    parts = {
        "modules": {name: hashlib.sha256(text).hexdigest() for name, text in _locks(minor)},
        "added": {name: hashlib.sha256(text).hexdigest() for name, text in _added(minor)},
        "insertions": insertions(minor),
        "tests": TESTS,
        "go": go_version,
        "platform": f"{platform.system()}-{platform.machine()}",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _locks(minor: str) -> Iterator[tuple[str, bytes]]:
    yield from ((name, text) for name, text in source_files(_group(minor)).items() if name in ("go.mod", "go.sum"))


def _added(minor: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted(OVERLAY.rglob("*.go")):
        text = file.read_text(encoding="utf-8")
        for before, after in _OTHER_CALLS.get(minor, ()):
            text = text.replace(before, after)
        yield file.relative_to(OVERLAY).as_posix(), text.encode()


def _make(minor: str, builder: Builder, target: Path) -> None:
    staging = target.with_name(f".making-{target.name}")
    shutil.rmtree(staging, ignore_errors=True)
    source, module, out = staging / "source", staging / "kueue", staging / "out"
    for folder in (source, out):
        folder.mkdir(parents=True)
    for name, content in _locks(minor):
        (source / name).write_bytes(content)
    copy_with_calls(minor, builder.module_folder(_group(minor), KUEUE), module)
    with (source / "go.mod").open("a") as file:
        file.write(f"\nreplace {KUEUE} => {module}\n")
    for package, tests in TESTS.items():
        name = package.rsplit("/", 1)[-1]
        program = staging / f"{name}.test"
        flags = ["-ldflags", " ".join(LINK_FLAGS)]
        _run(
            [str(builder.go.executable), "test", "-c", "-vet=off", *flags, "-o", str(program), f"{KUEUE}/{package}"],
            source,
            builder,
        )
        # The tests read files of their package.
        command = [str(program), "-test.run", f"^({tests})$"]
        for attempt in range(_ATTEMPTS):
            try:
                _run(command, module / package, builder, out / f"{name}.jsonl")
                break
            except ToolchainError:
                if attempt == _ATTEMPTS - 1:
                    raise
    digests.record_digests(out)
    out.rename(target)
    shutil.rmtree(staging)


def copy_with_calls(minor: str, module: Path, target: Path) -> None:
    """Copy the module with the recording calls; raise if a place for one is not found exactly once."""
    shutil.copytree(module, target)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    for name, content in _added(minor):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    for name, replacements in insertions(minor).items():
        file = target / name
        text = file.read_text(encoding="utf-8")
        for before, after in replacements:
            if text.count(before) != 1:
                raise ToolchainError(
                    f"{name} of {module.name} has {text.count(before)} times the text {before.strip()!r}: adapt "
                    "INSERTIONS in tests/admission/tables/dump.py to this version of Kueue"
                )
            text = text.replace(before, after)
        file.chmod(0o644)
        file.write_text(text, encoding="utf-8")


def _run(command: list[str], folder: Path, builder: Builder, output: Path | None = None) -> None:
    environment = builder.go.environment() | ({"KUEUE_TABLES": str(output)} if output else {})
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"{' '.join(command)} failed in {folder}:\n{(done.stdout + done.stderr)[-6000:]}")
