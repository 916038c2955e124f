"""A stack that lost its state declares its objects again without a conflict.

The server's defaults inside atomic fields are written out.
"""

from tests.unit.make import make_manifest
from trainstack.platform.operators.install import adapt_controller, stage_manifests
from trainstack.settings.sections.operators import Install


def test_webhook_rules_have_their_scope() -> None:
    """The scope is the server's `*` where the release has none, else the release's."""
    rules = [{"resources": ["jobs"]}, {"resources": ["clusterqueues"], "scope": "Cluster"}]
    webhooks = [{"name": "kb.io", "rules": rules}]
    release = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "x"}, "webhooks": webhooks}
    (configuration,) = stage_manifests([release], "dev", "v1.2.3").setup
    assert configuration["webhooks"] == [
        {
            "name": "kb.io",
            "rules": [{"resources": ["jobs"], "scope": "*"}, {"resources": ["clusterqueues"], "scope": "Cluster"}],
        }
    ]


def test_a_controllers_field_references_have_their_version() -> None:
    """Other variables are not changed."""
    env = [
        {"name": "MY_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "PLAIN", "value": "x"},
    ]
    template = {"metadata": {}, "spec": {"containers": [{"name": "manager", "env": env}]}}
    release = {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}}
    deployment = adapt_controller(release, Install(manifest=make_manifest()), container_name="manager", config="")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "MY_POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "PLAIN", "value": "x"},
    ]
