import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from trainstack.cli.engine import deployment, ensure_backend, pulumi
from trainstack.cli.output.console import confirm, ensure_confirmable, err, fail, out, show_json, step
from trainstack.cli.same_cluster import ensure_own_objects, ensure_same_cluster
from trainstack.cli.session import JsonOption, Session, StackOption, YesOption
from trainstack.errors import ExitCode
from trainstack.guards.definition_releases import definition_identities, revisions_of_resource
from trainstack.lifecycle.teardown.leftovers import explain_leftover, find_leftovers
from trainstack.lifecycle.teardown.live_stack import Body
from trainstack.lifecycle.teardown.plan import TeardownPlan
from trainstack.live.client import reach
from trainstack.live.teardown import plan_teardown, read_stack_objects
from trainstack.objects.ownership import Identity, format_identity
from trainstack.runs.launches import utc_now
from trainstack.runs.recorded_launches import recorded_launches, state_resource
from trainstack.stacks.teardown_permission import Permission, permit

_DEADLINE_SECONDS = 60
"""For Kubernetes to delete what is left when the engine has ended."""
_PAUSE_SECONDS = 1
_DESTROY = ("destroy", "--yes", "--skip-preview", "--run-program")


def destroy(
    *,
    stack: StackOption,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="RUN", help="Stop this active run (its id) or sweep; repeatable."),
    ] = None,
    keep_platform: Annotated[
        bool,
        typer.Option(
            "--keep-platform",
            help="Keep definitions and namespaces with volumes, so that a later `up` is quick; needs fewer rights.",
        ),
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove an environment: runs, queues, operators, definitions, namespaces, in this order; volumes are retained.

    Shows what will be deleted and kept, and asks for confirmation. Volumes are kept or deleted according to the
    settings (`retain`). Refuses while the environment has a protected volume or an active run without --stop, and,
    unless --keep-platform is given, while anyone else uses an object that would be deleted. With --json and without
    --yes, only shows the plan.

    Examples:
      trainstack destroy -s dev
      trainstack destroy -s dev --keep-platform
      trainstack destroy -s dev --stop digits-0f3c9a1b2d --yes
    """
    ensure_confirmable(yes=yes or as_json)
    session = Session.open(stack)
    ensure_backend(session)
    reach(session.settings.cluster.context)
    stored_deployment = deployment(session)
    ensure_same_cluster(session, stored_deployment)
    ensure_own_objects(session, stored_deployment)
    state = (stored_deployment or {}).get("resources") or []
    permission = _permission(session, state, stop or (), keep_platform=keep_platform)
    plan = _plan(session, state, permission)
    # With --json, stdout gets one document: the plan, or the result after the deletion.
    if as_json and (plan.refusals or not yes):
        show_json(_as_data(stack, plan, ()))
    elif not as_json:
        _show(stack, plan)
    if plan.refusals:
        fail("nothing was deleted:\n" + "\n".join(plan.refusals), ExitCode.REFUSED)
    if as_json and not yes:
        return
    if not plan.deleted and not _identities(state):
        if as_json:
            show_json(_as_data(stack, plan, ()))
        else:
            out.print(f"nothing to delete; to remove the stack's state too: pulumi stack rm {stack}")
        return
    confirm(f"Destroy {stack}?", yes=yes)
    # The engine may delete only what the user has confirmed.
    permission = replace(permission, deleted=tuple(plan.deleted))
    if keep_platform:
        _delete_state(session, plan, permission, as_json=as_json)
    else:
        _destroy_and_wait(session, plan, permission, as_json=as_json)


def _permission(
    session: Session, state: Sequence[Mapping[str, Any]], stop: Iterable[str], *, keep_platform: bool
) -> Permission:
    """Return what the settings and the state permit to delete, without the plan."""
    return Permission(
        mode="keep-platform" if keep_platform else "everything",
        stack=session.stack,
        retained=tuple(_identities(resource for resource in state if resource.get("retainOnDelete"))),
        protected=tuple(
            sorted(map(format_identity, _identities(resource for resource in state if resource.get("protect"))))
        ),
        stop=(*stop, *session.settings.workloads.stop),
    )


def _plan(session: Session, state: Sequence[Mapping[str, Any]], permission: Permission) -> TeardownPlan:
    launches = (state_resource(resource["urn"], resource.get("outputs")) for resource in state)
    with step("reading the cluster", "5 s"):
        return plan_teardown(
            session.settings,
            keep_platform=permission.mode == "keep-platform",
            retained=permission.retained,
            protected=permission.protected,
            stop=permission.stop,
            state_objects=_identities(state),
            recorded=recorded_launches(session.stack, launches),
        )


def _delete_state(session: Session, plan: TeardownPlan, permission: Permission, *, as_json: bool) -> None:
    with permit(session.root, permission) as variables:
        pulumi(session, *_DESTROY, variables=variables, aside=as_json)
    if as_json:
        show_json(_as_data(session.stack, plan, ()))
    else:
        _show_kept(plan, "kept")


def _destroy_and_wait(session: Session, plan: TeardownPlan, permission: Permission, *, as_json: bool) -> None:
    stack = session.stack
    with permit(session.root, permission) as variables:
        code = pulumi(session, *_DESTROY, check=False, variables=variables, aside=as_json)
    remaining_objects = _await_deletion(session, plan, 0 if code else _DEADLINE_SECONDS)
    now = utc_now()
    leftovers = [explain_leftover(body, now) for body in remaining_objects]
    if as_json:
        show_json(_as_data(stack, plan, leftovers))
    if leftovers or code:
        cause = "`pulumi destroy` failed; see its output above. " if code else ""
        listing = "\n".join(leftovers or ["nothing in the cluster"])
        fail(
            f"{cause}Remaining objects of {stack}:\n{listing}\nCompleted deletions are kept, and finalizers are never "
            "removed: fix what blocks the deletion, and run the same command again",
            code or ExitCode.FAILED,
        )
    if not as_json:
        _show_kept(plan, "kept")
        out.print(f"{stack} has no other objects; to remove the stack's state too: pulumi stack rm {stack}")


def _await_deletion(session: Session, plan: TeardownPlan, deadline_seconds: float) -> list[Body]:
    """Wait for the deletion of all objects that are not kept, and return those that remain."""
    deadline, reported_count = time.monotonic() + deadline_seconds, -1
    while True:
        remaining_objects = find_leftovers(read_stack_objects(session.settings), plan.retention_reasons)
        if not remaining_objects or time.monotonic() >= deadline:
            return remaining_objects
        if len(remaining_objects) != reported_count:
            reported_count = len(remaining_objects)
            err.print(f"  {reported_count} objects are being deleted (timeout in {deadline - time.monotonic():.0f} s)")
        time.sleep(_PAUSE_SECONDS)


def _identities(state: Iterable[Mapping[str, Any]]) -> frozenset[Identity]:
    state_identities: set[Identity] = set()
    for resource in state:
        if resource.get("custom") and not resource.get("external") and resource["type"].startswith("kubernetes:"):
            namespace, _, name = str(resource.get("id", "")).rpartition("/")
            state_identities.add((resource["type"].rpartition(":")[2], namespace or None, name))
        state_identities |= definition_identities(
            revisions_of_resource(state_resource(resource["urn"], resource.get("outputs")))
        )
    return frozenset(state_identities)


def _show(stack: str, plan: TeardownPlan) -> None:
    for stage, objects in plan.stages.items():
        if objects:
            out.print(f"delete: {stage}: {', '.join(map(format_identity, objects))}")
    _show_kept(plan, "keep")
    if plan.active_runs and not plan.refusals:
        out.print(f"stop: {', '.join(plan.active_runs)}", style="yellow")
    if not plan.deleted:
        out.print(f"no object of {stack} is deleted")


def _show_kept(plan: TeardownPlan, label: str) -> None:
    for key, reason in sorted(plan.retention_reasons.items(), key=str):
        out.print(f"{label}: {format_identity(key)}: {reason}")


def _as_data(stack: str, plan: TeardownPlan, leftovers: Iterable[str]) -> dict[str, Any]:
    return {
        "stack": stack,
        "goes": {stage: list(map(format_identity, objects)) for stage, objects in plan.stages.items()},
        "stays": {format_identity(key): reason for key, reason in plan.retention_reasons.items()},
        "stops": list(plan.active_runs),
        "refusals": list(plan.refusals),
        "left": list(leftovers),
    }
