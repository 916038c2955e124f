"""The rule about Secrets to which pods of runs and data loaders refer."""

from collections.abc import Iterator

from trainstack.preflight.live_context import LiveContext, missing_violation, unknown_violation
from trainstack.preflight.rule import Rule, Violation
from trainstack.runs.manifests.user_manifest import secrets_of_manifest
from trainstack.settings.model import Settings


@Rule(
    id="secret-missing",
    may_be=("warning", "unknown"),
    summary="A run, or `cluster.loader`, refers to a Secret that its namespace does not have.",
    details="Without a pull secret, the image cannot be pulled. A warning if the environment declares the Secret.",
    example="`imagePullSecrets: [registry]` in a namespace without the Secret `registry`.",
    remedy="Create the Secret in the namespace, or declare it under `secrets`.",
)
def secret_missing(context: LiveContext) -> Iterator[Violation]:
    declared_secrets = {(secret.namespace, secret.name) for secret in context.settings.secrets.secrets}
    for path, namespace, name in secret_references(context.settings):
        exists = context.live.secrets.get((namespace, name))
        if exists is None:
            yield unknown_violation(path, f"namespace {namespace} has Secret {name!r}", "its metadata")
        elif not exists:
            remedy = f"create it in namespace {namespace}, or declare it under secrets"
            message = f"namespace {namespace} does not have Secret {name!r}"
            yield missing_violation(context, path, message, remedy, is_declared=(namespace, name) in declared_secrets)


def secret_references(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield the path, namespace and name of each reference to a Secret, by runs and by data loaders."""
    for path, run in settings.runs_and_trials():
        for index, name in enumerate(run.image_pull_secrets):
            yield f"{path}.imagePullSecrets[{index}]", run.namespace, name
        for variable, value in run.secret_env.items():
            yield f"{path}.secretEnv[{variable}].secret", run.namespace, value.secret
        for secret_path, name in secrets_of_manifest(path, run):
            yield secret_path, run.namespace, name
        for index, source in enumerate(run.env_from):
            if source.secret is not None:
                yield f"{path}.envFrom[{index}].secret", run.namespace, source.secret
        if run.code is not None and run.code.secret is not None:
            yield f"{path}.code.secret", run.namespace, run.code.secret
    for namespace in sorted(settings.volume_namespaces):
        for index, name in enumerate(settings.cluster.loader.image_pull_secrets):
            yield f"cluster.loader.imagePullSecrets[{index}]", namespace, name
