"""The install of the Kubeflow training operator (v1): its release with only the kinds in use, and an init container.

The operator adds an init container to each worker of a PyTorchJob. It reads the template of that container from a file,
once, at its first worker; without the file it uses a default (pkg/controller.v1/pytorch/initcontainer.go).
"""

from collections.abc import Sequence

from trainstack.objects.labels import Manifest
from trainstack.platform.operators.install import adapt_controller, find_manifest, keep_webhooks
from trainstack.settings.sections.operators import TrainingOperator

NAMESPACE = "kubeflow"
CONTROLLER = "training-operator"
GROUP = "kubeflow.org"
INIT_CONFIG_MAP = "trainstack-init-container"
INIT_FOLDER = "/etc/config"
INIT_KEY = "initContainer.yaml"
INIT_TRIES = 1800
"""The number of a worker's attempts to resolve its master's name, one every 2 seconds: an hour, enough to pull the
largest images. With the release's default of 100, a worker with `restartPolicy: Never` would fail the whole job after a
few minutes."""

# The operator renders the text with Go's html/template, where `<` would begin a tag. A master's name resolves once its
# pod runs. busybox's nslookup fails if any search domain does not resolve, and only one does, so the script ignores the
# exit code and searches the output for `Name:`, which only an answer contains.
INIT_TEMPLATE = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command:
    - sh
    - -c
    - |
      tries=0
      until nslookup "$1" 2>/dev/null | grep -q "^Name:"; do
        tries=$((tries + 1))
        if [ "$tries" -ge {{.MaxTries}} ]; then
          echo "the host name of the master, $1, did not resolve in $tries attempts; check whether its pod has started"
          exit 1
        fi
        echo "waiting for the master: $1 does not resolve yet"
        sleep 2
      done
    - wait-for-master
    - {{.MasterAddr}}
  resources:
    requests:
      cpu: 10m
      memory: 16Mi
    limits:
      cpu: 100m
      memory: 32Mi
  securityContext:
    allowPrivilegeEscalation: false
    capabilities:
      drop:
        - ALL
    runAsNonRoot: true
    runAsUser: 65534
    seccompProfile:
      type: RuntimeDefault
"""


def training_operator(release: Sequence[Manifest], settings: TrainingOperator) -> list[Manifest]:
    """Return the objects of the release that the declared kinds need.

    Raises OperatorError if the release lacks the Deployment or the CRD of a declared kind.
    """
    deployment = find_manifest(release, "Deployment", CONTROLLER)
    for scheme in settings.schemes:
        find_manifest(release, "CustomResourceDefinition", f"{scheme}s.{GROUP}")
    plurals = {f"{scheme}s" for scheme in settings.schemes}
    objects: list[Manifest] = []
    for manifest in release:
        kind = manifest["kind"]
        if manifest is deployment:
            objects.append(_adapt_deployment(manifest, settings))
        elif kind == "CustomResourceDefinition":
            if manifest["spec"]["names"]["plural"] in plurals:
                objects.append(manifest)
        elif kind.endswith("WebhookConfiguration"):
            # The operator answers only the webhooks of kinds that it watches.
            objects.append(keep_webhooks(manifest, lambda rule: not plurals.isdisjoint(rule["resources"])))
        else:
            objects.append(manifest)
    init_config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": INIT_CONFIG_MAP, "namespace": NAMESPACE},
        "data": {INIT_KEY: INIT_TEMPLATE},
    }
    return [*objects, init_config_map]


def _adapt_deployment(manifest: Manifest, settings: TrainingOperator) -> Manifest:
    result = adapt_controller(
        manifest,
        settings,
        container_name=CONTROLLER,
        args=[
            *(f"--enable-scheme={scheme}" for scheme in settings.schemes),
            f"--pytorch-init-container-image={settings.init_container_image}",
            f"--pytorch-init-container-max-tries={INIT_TRIES}",
            f"--pytorch-init-container-template-file={INIT_FOLDER}/{INIT_KEY}",
        ],
        config=INIT_TEMPLATE,
    )
    pod = result["spec"]["template"]["spec"]
    pod["volumes"] = [*pod.get("volumes", []), {"name": "init-container", "configMap": {"name": INIT_CONFIG_MAP}}]
    container = next(item for item in pod["containers"] if item["name"] == CONTROLLER)
    container["volumeMounts"] = [
        *container.get("volumeMounts", []),
        {"name": "init-container", "mountPath": INIT_FOLDER, "readOnly": True},
    ]
    return result
