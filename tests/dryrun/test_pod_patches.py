"""A `podPatch` has the result of `kubectl patch --type strategic`, which the API server and check judge alike."""

import copy
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.dryrun.dry_run_project import SEED, SUPPRESSED
from tests.dryrun.pod_fields import FILE, document, fields, serialize
from tests.dryrun.server import dry_run_server
from tests.unit.make import make_run
from tests.unit.runs.launches import make_launch
from trainstack.objects.labels import Manifest
from trainstack.preflight.pod_validation import find_pod_faults
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.strategic_merge import merge_patch
from trainstack.settings.base import Toleration
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.pod_options import Scratch
from trainstack.toolchain.tools import program

pytestmark = pytest.mark.cluster

DRAWN = 120
COMPARED = 150

names = st.sampled_from(("training", "trainstack-wrapper", "TRAINSTACK_RUN_ID", "a", "b", "c"))
words = st.sampled_from(("x", "y", "z"))
directives = st.sampled_from(("delete", "replace"))


def elements(key: str, keys: st.SearchStrategy[Any], rest: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """A list that is merged by a key: elements that are merged, added, deleted, or that replace all others."""
    element = st.fixed_dictionaries({key: keys}, optional=rest)
    deleted = st.fixed_dictionaries({key: keys, "$patch": st.just("delete")})
    replaced = st.just({"$patch": "replace"})
    return st.lists(st.one_of(element, element, deleted, replaced), max_size=4, unique_by=lambda one: one.get(key))


def maps(rest: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """A map that is merged, or that replaces or deletes the original's."""
    merging = st.fixed_dictionaries({}, optional=rest)
    return st.one_of(merging, merging, merging, st.fixed_dictionaries({"$patch": directives}, optional=rest))


env = elements("name", names, {"value": words})
mounts = elements("mountPath", st.sampled_from(("/mnt/training", "/opt/trainstack", "/a")), {"name": names})
ports = elements("containerPort", st.sampled_from((1, 2)), {"name": words, "hostPort": st.just(3)})
resources = maps({"limits": maps({"cpu": words, "memory": words}), "requests": maps({"cpu": words})})
context = maps({"runAsUser": st.just(7), "capabilities": maps({"add": st.lists(words, max_size=2)})})
containers = elements(
    "name",
    names,
    {
        "image": words,
        "args": st.lists(words, max_size=2),
        "env": env,
        "volumeMounts": mounts,
        "ports": ports,
        "resources": resources,
        "securityContext": context,
    },
)
volumes = elements("name", names, {"emptyDir": maps({"medium": words}), "configMap": maps({"name": words})})
constraints = elements("topologyKey", words, {"maxSkew": st.just(1), "whenUnsatisfiable": words})
selector = maps({"disk": words, "pool": words})
metadata = maps({"labels": maps({"a": words, "trainstack.dev/run": words}), "annotations": maps({"b": words})})
patches = st.fixed_dictionaries(
    {},
    optional={
        "metadata": metadata,
        "spec": maps(
            {
                "containers": containers,
                "initContainers": containers,
                "volumes": volumes,
                "nodeSelector": selector,
                "tolerations": st.lists(st.fixed_dictionaries({"key": words}), max_size=2),
                "topologySpreadConstraints": constraints,
                "securityContext": context,
                "imagePullSecrets": elements("name", names, {}),
                "affinity": maps({"nodeAffinity": maps({}), "podAffinity": maps({})}),
                "terminationGracePeriodSeconds": st.just(90),
                "hostAliases": elements("ip", words, {"hostnames": st.lists(words, max_size=2)}),
            }
        ),
    },
)


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """A value that is usually valid, so that few of a patch's values are faults."""
    return st.sampled_from((*(usual,) * 12, *others))


def optional(required: dict[str, st.SearchStrategy[Any]], **rest: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=rest)


ports_of_actions = mostly(80, 0, 65536, "http")
actions = {
    "exec": st.fixed_dictionaries({"command": mostly(["true"], [])}),
    "httpGet": optional({"port": ports_of_actions}, scheme=mostly("HTTP", "http")),
}
probes = st.one_of(
    optional(
        {"exec": actions["exec"]},
        tcpSocket=st.fixed_dictionaries({"port": ports_of_actions}),
        periodSeconds=mostly(5, -1),
    ),
    optional({}, httpGet=actions["httpGet"], grpc=st.fixed_dictionaries({"port": mostly(1, 0)})),
)
selectors = st.fixed_dictionaries({"name": mostly("a", ""), "key": mostly("a", "")})
variables = st.lists(
    st.one_of(
        optional({"name": mostly("A", "a-b", "")}, value=words),
        optional(
            {"name": st.just("B")},
            value=mostly("", "x"),
            valueFrom=optional({}, configMapKeyRef=selectors, secretKeyRef=selectors),
        ),
    ),
    max_size=2,
    unique_by=lambda variable: variable["name"],
)
drawn_containers = st.lists(
    optional(
        {"name": st.one_of(st.sampled_from(("a", "b")), mostly("a", "b.c", "B")), "image": mostly("a:1", "")},
        imagePullPolicy=mostly("Always", "always", ""),
        terminationMessagePolicy=mostly("File", "file"),
        restartPolicy=st.just("Always"),
        env=variables,
        envFrom=st.lists(
            optional(
                {"configMapRef": st.fixed_dictionaries({"name": mostly("a", "")})},
                secretRef=st.fixed_dictionaries({"name": mostly("a", "")}),
            ),
            max_size=1,
        ),
        volumeMounts=st.lists(
            optional(
                {"mountPath": st.sampled_from(("/x", "/y")), "name": mostly("new", "training", "fast", "missing", "")},
                subPath=mostly("a", "/a", "a/../b", "a..b"),
                subPathExpr=mostly("", "a", "../a"),
                mountPropagation=mostly("None", "Bidirectional", "none"),
            ),
            max_size=2,
            unique_by=lambda mount: mount["mountPath"],
        ),
        volumeDevices=st.lists(
            st.fixed_dictionaries({"devicePath": st.just("/dev/x"), "name": mostly("claim", "new", "missing")}),
            max_size=1,
        ),
        ports=st.lists(
            optional(
                {"containerPort": mostly(1, 2, 0, 65536)},
                name=mostly("http", "HTTP", "1", "a--b", "a" * 16, ""),
                protocol=mostly("TCP", "tcp"),
            ),
            max_size=2,
            unique_by=lambda port: port["containerPort"],
        ),
        livenessProbe=probes,
        readinessProbe=probes,
        lifecycle=optional({}, postStart=optional({}, **actions)),
        securityContext=optional(
            {}, privileged=st.booleans(), allowPrivilegeEscalation=st.booleans(), runAsGroup=mostly(1, -1)
        ),
    ),
    max_size=2,
    unique_by=lambda container: container["name"],
)
items = st.lists(st.fixed_dictionaries({"key": mostly("a", ""), "path": mostly("a", "", "/a", "../a")}), max_size=1)
modes = mostly(0o644, 0o1000, -1)
downward = optional(
    {"path": mostly("a", "", "/a")},
    fieldRef=st.fixed_dictionaries({"fieldPath": mostly("metadata.name", "")}),
    resourceFieldRef=st.fixed_dictionaries({"containerName": st.just("a"), "resource": mostly("limits.cpu", "")}),
)
sources = {
    "configMap": optional({"name": mostly("a", "")}, items=items, defaultMode=modes),
    "secret": optional({"secretName": mostly("a", "")}, items=items),
    "emptyDir": st.just({}),
    "hostPath": st.fixed_dictionaries({"path": mostly("/a", "", "/a/../b")}),
    "nfs": st.fixed_dictionaries({"server": mostly("a", ""), "path": mostly("/a", "", "a")}),
    "csi": st.fixed_dictionaries({"driver": mostly("a.b", "")}),
    "image": optional({"reference": mostly("a:1", "")}, pullPolicy=mostly("Always", "always")),
    "downwardAPI": st.fixed_dictionaries({"items": st.lists(downward, max_size=1)}),
    "projected": st.fixed_dictionaries(
        {
            "sources": st.lists(
                optional(
                    {"configMap": optional({"name": mostly("a", "")}, items=items)},
                    secret=st.fixed_dictionaries({"name": st.just("a")}),
                ),
                max_size=1,
            )
        }
    ),
}
claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
fixed_volumes = [{"name": "claim", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
new_volumes = st.one_of(
    *(st.fixed_dictionaries({"name": mostly("new", "N", "a.b"), name: source}) for name, source in sources.items()),
    st.fixed_dictionaries({"name": st.just("new")}, optional=sources),
    st.just({"name": "new"}),
)
constraint = optional(
    {"topologyKey": st.just("zone"), "maxSkew": mostly(1, 0), "whenUnsatisfiable": mostly("DoNotSchedule", "Never")}
)
spec_fields = {
    "initContainers": drawn_containers,
    "containers": drawn_containers,
    "volumes": new_volumes.map(lambda volume: [volume, *fixed_volumes]),
}
pod_specs = st.fixed_dictionaries(
    {},
    optional={
        **spec_fields,
        "dnsPolicy": mostly("Default", "None", "default"),
        "dnsConfig": optional({}, nameservers=st.lists(st.just("1.1.1.1"), max_size=1)),
        "tolerations": st.lists(
            st.fixed_dictionaries(
                {"key": st.just("a"), "operator": mostly("Exists", "Gone")},
                optional={"effect": mostly("NoSchedule", "", "no")},
            ),
            max_size=1,
        ),
        "topologySpreadConstraints": st.lists(constraint, max_size=1),
        "securityContext": optional(
            {},
            fsGroup=mostly(1, -1),
            fsGroupChangePolicy=mostly("Always", "Never"),
            seccompProfile=st.fixed_dictionaries({"type": mostly("Unconfined", "None")}),
        ),
    },
)


def template() -> Manifest:
    """The pods of a managed run, with lists of several elements."""
    run = make_run(
        env={"a": "1", "b": "2"},
        code=Code(git="https://git.example.org/a.git", revision="1" * 40, mount_path="/code"),
        scratch=(Scratch(name="a", mount_path="/scratch", size="1Gi"),),
        node_selector={"disk": "ssd"},
        tolerations=(Toleration(operator="Exists"),),
        image_pull_secrets=("a", "registry"),
        run_as_user=1000,
    )
    built = manifest(run, "dev", make_launch(git_image="git"))
    found: Manifest = built["spec"]["template"]
    constraints = [{"topologyKey": key, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"} for key in ("x", "w")]
    found["spec"]["topologySpreadConstraints"] = constraints
    return found


def by_kubectl(folder: Path, patch: Manifest) -> Manifest:
    """Return the template as patched by kubectl."""
    file = folder / "template.json"
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": template()}
    file.write_text(json.dumps(body), encoding="utf-8")
    words = [
        "patch",
        "--local",
        "-f",
        str(file),
        "--type",
        "strategic",
        "-o",
        "json",
        "-p",
        json.dumps({"template": patch}),
    ]
    done = subprocess.run([str(program("kubectl")), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Manifest = json.loads(done.stdout)["template"]
    return found


def test_patches_are_merged_as_kubectl_merges_them(tmp_path: Path) -> None:
    """This includes the order of elements. kubectl keeps a directive in a new element; we remove it."""
    compared: list[bool] = []

    @hypothesis.seed(SEED)
    @hypothesis.settings(max_examples=DRAWN, deadline=None, database=None, suppress_health_check=SUPPRESSED)
    @hypothesis.given(patches)
    def agree(patch: Manifest) -> None:
        own = merge_patch(template(), copy.deepcopy(patch))
        theirs = by_kubectl(tmp_path, patch)
        if "$patch" not in json.dumps(theirs):
            compared.append(own != template())
            assert own == theirs
        assert "$patch" not in json.dumps(own)

    agree()
    assert sum(compared) > DRAWN / 2


def test_check_and_the_api_server_refuse_the_same_patches(tmp_path: Path) -> None:
    """The fields are those of containers, volumes and the pod that a patch usually sets, few of them wrong."""
    counts: Counter[tuple[bool, bool]] = Counter()
    with dry_run_server(tmp_path, []) as server:

        @hypothesis.seed(SEED)
        @hypothesis.settings(max_examples=COMPARED, deadline=None, database=None, suppress_health_check=SUPPRESSED)
        @hypothesis.given(pod_specs)
        def agree(spec: Manifest) -> None:
            run = make_run(scratch=(Scratch(name="fast", mount_path="/fast"),), pod_patch={"spec": spec})
            job = manifest(run, "dev", make_launch())
            faults, refusals = find_pod_faults(job["spec"]["template"]), server.refusals([job])
            counts[bool(faults), bool(refusals)] += 1
            assert bool(faults) == bool(refusals), (spec, faults, refusals)

        agree()
    assert min(counts[True, True], counts[False, False]) > COMPARED / 10, counts


def test_the_table_of_fields_is_that_of_the_pinned_release() -> None:
    """The keys by which lists are merged are equal too."""
    assert FILE.read_text(encoding="utf-8") == serialize(fields(document()))
