"""The first installation of the operators, until their webhooks answer."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import httpx
import yaml

from bench import tools
from bench.case import Arm, Case, Command, Scene
from bench.cluster_reads import await_true, client
from bench.environments import as_config
from trainstack.live.paths import collection_path
from trainstack.objects.labels import Manifest
from trainstack.platform import probes

STACK = "operators"
_REQUESTS = {"requests": {"cpu": "50m", "memory": "128Mi"}}
SETTINGS = {
    "environment": {"state": "embedded"},
    "operators": {"kueue": _REQUESTS, "trainingOperator": _REQUESTS},
    "queues": {"priorityClasses": None},
}
PROBES = (probes.kueue(STACK), probes.training_operator(STACK))


def answers(api: httpx.Client) -> bool:
    """Return whether the webhooks of both operators accept an object."""
    return all(api.post(_path(probe), params={"dryRun": "All"}, json=probe).is_success for probe in PROBES)


def _path(probe: Manifest) -> str:
    return collection_path(probe["apiVersion"], probe["kind"], probe["metadata"].get("namespace"))


@contextmanager
def _arms(scene: Scene) -> Iterator[Sequence[Arm]]:
    """Yield the arms of an installation on a cluster without operators."""
    file = scene.folder / f"Pulumi.{STACK}.yaml"
    text = yaml.safe_dump(as_config(SETTINGS))
    file.write_text(text)
    objects = tools.written(scene, STACK, tools.rendered(scene, STACK), "bench")
    program = tools.program(scene, "install", "sdk.py", objects.bodies())
    up = ("up", "--yes", "--skip-preview")
    delete = scene.command("kubectl", "delete", "--ignore-not-found", "--timeout=300s", "-f", str(objects.file))

    def remove() -> None:
        """Delete the objects of the previous arm, and both states."""
        tools.run(delete)
        file.write_text(text)
        shutil.rmtree(tools.pulumi_backend(scene.folder), ignore_errors=True)
        tools.run(scene.command(*tools.CLI, "env", "-s", STACK))
        tools.program(scene, "install", "sdk.py", objects.bodies())

    with client(scene.kubeconfig) as api:
        until = partial(await_true, "webhooks that answer", partial(answers, api))
        commands = {
            tools.TRAINSTACK: tools.pulumi(scene, STACK, *up),
            tools.KUBECTL: _in_two_steps(scene, objects),
            tools.SDK: program.command(*up),
            tools.CLIENT: objects.client(scene),
        }
        yield [Arm(name=name, command=command, prepare=remove, until=until) for name, command in commands.items()]


def _in_two_steps(scene: Scene, objects: tools.Objects) -> Command:
    """Return `kubectl apply` of namespaces and definitions, and of the rest once the definitions are established."""
    first = [body for body in objects.bodies() if body["kind"] in ("Namespace", "CustomResourceDefinition")]
    rest = [body for body in objects.bodies() if body not in first]
    apply = "kubectl apply --server-side -f"
    files = [
        tools.written(scene, f"{STACK}-{name}", part, "").file for name, part in (("first", first), ("rest", rest))
    ]
    wait = "kubectl wait --for=condition=Established --timeout=120s crd --all"
    return scene.command("sh", "-ec", f"{apply} {files[0]}\n{wait}\n{apply} {files[1]}")


CASES = (
    Case(
        id="operators",
        title="First installation of Kueue and the training operator, until their webhooks answer",
        subject="clusters",
        place="bare",
        arms=_arms,
        measure="wall",
        rounds=3,
        warm_up=False,
    ),
)
