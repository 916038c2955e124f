"""What a deployment needs before it calls the engine."""

from trainstack.cli.output.console import report
from trainstack.cli.releases import settings_with_downloads
from trainstack.cli.session import Session
from trainstack.local_cluster import drivers
from trainstack.settings.loading.load import default_digests
from trainstack.stack_objects.inputs import is_built
from trainstack.toolchain import tools


def ensure_tools(session: Session, *, kubectl: bool, local_cluster: bool) -> None:
    """Find or build tools, and the release manifests that the settings name.

    `kubectl`: whether files are exchanged with pods. `local_cluster`: whether the local cluster is started.
    """
    installs = session.settings.operators.installs.values()
    cluster_spec = drivers.status(session.cluster_folder).spec if local_cluster else None
    groups = tools.needed_groups(
        local_cluster=local_cluster,
        kind=local_cluster and drivers.default_driver(session.cluster_folder) == "kind",
        kubectl=kubectl,
        releases=any(map(is_built, installs)),
        simulation=cluster_spec is not None and cluster_spec.simulated_nodes > 0,
        judge=bool(session.settings.queues.topologies),
    )
    tools.ensure(groups, project=session.root, pinned_digests=default_digests())
    for program in tools.replacements():
        report(f"from PATH: {program}")
    settings_with_downloads(session.settings)
