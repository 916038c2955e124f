"""A `podPatch` has the result of `kubectl patch --type strategic`."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.dryrun.dry_run_project import SEED, SUPPRESSED
from tests.dryrun.pod_fields import FILE, document, fields, serialize
from tests.unit.make import make_run
from tests.unit.runs.launches import make_launch
from trainstack.objects.labels import Manifest
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.strategic_merge import merge_patch
from trainstack.settings.base import Toleration
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.pod_options import Scratch
from trainstack.toolchain.tools import program

pytestmark = pytest.mark.cluster

DRAWN = 120

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


def test_the_table_of_fields_is_that_of_the_pinned_release() -> None:
    """The keys by which lists are merged are equal too."""
    assert FILE.read_text(encoding="utf-8") == serialize(fields(document()))
