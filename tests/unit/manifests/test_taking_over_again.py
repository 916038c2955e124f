"""Objects of which the state was lost are declared again without a conflict: what the server fills into a part that is
owned as a whole is written out."""

from tests.unit.make import make_manifest
from trainstack.platform.operators.install import controller, staged
from trainstack.settings.sections.operators import Install


def test_webhook_rules_say_their_scope() -> None:
    """The server's `*` where the release says nothing; the release's own where it says something."""
    rules = [{"resources": ["jobs"]}, {"resources": ["clusterqueues"], "scope": "Cluster"}]
    webhooks = [{"name": "kb.io", "rules": rules}]
    release = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "x"}, "webhooks": webhooks}
    (made,) = staged([release], "dev", "v1.2.3").setup
    assert made["webhooks"] == [
        {
            "name": "kb.io",
            "rules": [{"resources": ["jobs"], "scope": "*"}, {"resources": ["clusterqueues"], "scope": "Cluster"}],
        }
    ]


def test_a_controllers_field_references_say_their_version() -> None:
    """Other variables are left as they are."""
    env = [
        {"name": "MY_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "PLAIN", "value": "x"},
    ]
    template = {"metadata": {}, "spec": {"containers": [{"name": "manager", "env": env}]}}
    release = {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}}
    made = controller(release, Install(manifest=make_manifest()), container="manager", config="")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "MY_POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "PLAIN", "value": "x"},
    ]
