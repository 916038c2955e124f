"""The install of the training operator, from a minimal release."""

import copy
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.make import make_training_operator
from tests.unit.platform.restricted import violations
from trainstack.platform.operators.install import OperatorError, stage_manifests
from trainstack.platform.operators.training_operator import INIT_TEMPLATE, training_operator
from trainstack.settings.sections.operators import ControllerResources

KINDS = ("jaxjobs", "pytorchjobs", "tfjobs")


def make_release() -> list[dict[str, Any]]:
    """Return a minimal release of the operator."""
    container = {
        "name": "training-operator",
        "command": ["/manager"],
        "image": "operator:v1",
        "volumeMounts": [{"name": "cert", "mountPath": "/certs", "readOnly": True}],
    }
    pod = {"containers": [container], "volumes": [{"name": "cert", "secret": {"secretName": "cert"}}]}
    named = {"name": "training-operator", "namespace": "kubeflow"}
    return [
        {"kind": "Namespace", "metadata": {"name": "kubeflow"}},
        *(
            {
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{kind}.kubeflow.org"},
                "spec": {"names": {"plural": kind}},
            }
            for kind in KINDS
        ),
        {"kind": "Deployment", "metadata": named, "spec": {"template": {"metadata": {}, "spec": pod}}},
        {
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validator.training-operator.kubeflow.org"},
            "webhooks": [{"name": kind, "rules": [{"resources": [kind]}]} for kind in KINDS],
        },
    ]


def make_init_container() -> dict[str, Any]:
    """Return the init container that the operator renders from our template."""
    text = INIT_TEMPLATE
    values = {"InitContainerImage": f"busybox@sha256:{'0' * 64}", "MaxTries": "3", "MasterAddr": "digits-0-0-master-0"}
    for key, value in values.items():
        text = text.replace("{{." + key + "}}", value)
    (container,) = yaml.safe_load(text)
    return dict(container)


def run_script(folder: Path, answers: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the init container's command with an nslookup that gives these answers, one per call, and always fails."""
    for number, answer in enumerate(answers, 1):
        (folder / f"answer-{number}").write_text(answer)
    (folder / "nslookup").write_text('#!/bin/sh\necho . >> calls\ncat "answer-$(wc -l < calls)"\nexit 1\n')
    (folder / "sleep").write_text("#!/bin/sh\n")
    for program in ("nslookup", "sleep"):
        (folder / program).chmod(0o755)
    return subprocess.run(
        make_init_container()["command"],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_only_the_listed_kinds_are_installed_watched_and_validated() -> None:
    """A CRD is large; a webhook without a server blocks its kind."""
    installed = stage_manifests(
        training_operator(make_release(), make_training_operator(schemes=("pytorchjob", "tfjob"))), "dev", "v1.2.3"
    )
    assert [crd["metadata"]["name"] for crd in installed.crds] == ["pytorchjobs.kubeflow.org", "tfjobs.kubeflow.org"]
    (webhooks,) = (obj for obj in installed.setup if obj["kind"] == "ValidatingWebhookConfiguration")
    assert [webhook["name"] for webhook in webhooks["webhooks"]] == ["pytorchjobs", "tfjobs"]


def test_the_controller_is_adapted_and_hardened() -> None:
    """It has the kinds, our init container, the requests, and the fields for a `restricted` namespace."""
    declared = make_training_operator(image=f"operator@sha256:{'0' * 64}", requests=ControllerResources(cpu="50m"))
    (deployment,) = stage_manifests(training_operator(make_release(), declared), "dev", "v1.2.3").deployments
    template = deployment["spec"]["template"]
    assert template["spec"] == {
        "containers": [
            {
                "name": "training-operator",
                "command": ["/manager"],
                "args": [
                    "--enable-scheme=pytorchjob",
                    "--pytorch-init-container-image=busybox:1.35.0",
                    "--pytorch-init-container-max-tries=1800",
                    "--pytorch-init-container-template-file=/etc/config/initContainer.yaml",
                ],
                "image": f"operator@sha256:{'0' * 64}",
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": {"cpu": "50m"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": "cert", "mountPath": "/certs", "readOnly": True},
                    {"name": "init-container", "mountPath": "/etc/config", "readOnly": True},
                ],
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "cert", "secret": {"secretName": "cert"}},
            {"name": "init-container", "configMap": {"name": "trainstack-init-container"}},
        ],
    }
    assert violations(template["spec"]) == []


def test_the_init_template_is_where_the_operator_reads_it() -> None:
    """Elsewhere, the operator would silently use its own."""
    installed = stage_manifests(training_operator(make_release(), make_training_operator()), "dev", "v1.2.3")
    (config_map,) = (obj for obj in installed.setup if obj["kind"] == "ConfigMap")
    assert config_map == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "trainstack-init-container",
            "namespace": "kubeflow",
            "labels": {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "dev"},
        },
        "data": {"initContainer.yaml": INIT_TEMPLATE},
    }


def test_the_init_container_passes_html_template_and_pod_security() -> None:
    """`<` would begin a tag; quotes in plain text are kept."""
    assert "<" not in INIT_TEMPLATE
    container = make_init_container()
    assert (container["name"], container["image"]) == ("init-pytorch", f"busybox@sha256:{'0' * 64}")
    assert container["command"][3:] == ["wait-for-master", "digits-0-0-master-0"]
    assert violations({"containers": [container]}) == []


def test_a_worker_starts_once_its_masters_name_resolves(tmp_path: Path) -> None:
    """nslookup fails nevertheless, as busybox's does when one of the search domains has no answer."""
    server = "Server:\t\t198.18.0.10\nAddress:\t198.18.0.10:53\n\n"
    missing = f"{server}** server can't find digits-0-0-master-0.svc.cluster.local: NXDOMAIN\n"
    resolved = f"{missing}\nName:\tdigits-0-0-master-0.research.svc.cluster.local\nAddress: 198.18.1.4\n"
    process = run_script(tmp_path, [missing, resolved])
    assert process.returncode == 0
    assert process.stdout == "waiting for the master: digits-0-0-master-0 does not resolve yet\n"


def test_a_worker_gives_up_after_its_tries(tmp_path: Path) -> None:
    """The message has the name that it waited for."""
    process = run_script(tmp_path, ["", "", "", ""])
    assert process.returncode == 1
    assert "the host name of the master, digits-0-0-master-0, did not resolve in 3 attempts" in process.stdout


def test_a_kind_that_the_release_does_not_have_is_refused() -> None:
    """The error has its CRD."""
    with pytest.raises(OperatorError, match=r"no CustomResourceDefinition mpijobs\.kubeflow\.org"):
        training_operator(make_release(), make_training_operator(schemes=("mpijob",)))


def test_the_release_is_not_changed() -> None:
    """Builders change no argument."""
    release = make_release()
    before = copy.deepcopy(release)
    training_operator(release, make_training_operator(requests=ControllerResources(cpu="1")))
    assert release == before
