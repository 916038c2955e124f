"""`trainstack teardown`: the end of an environment, in drain order, with a look at who else uses it."""

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from trainstack.cli.console import err, fail, out, show_json, step
from trainstack.cli.engine import pulumi, resources
from trainstack.cli.same_cluster import ensure_own_objects, ensure_same_cluster
from trainstack.cli.session import JsonOption, Session, StackOption
from trainstack.dev.toolchain.errors import ToolchainError
from trainstack.lifecycle.teardown.context import Body
from trainstack.lifecycle.teardown.leftovers import explained, left
from trainstack.lifecycle.teardown.plan import Plan, decide
from trainstack.live.client import ClusterError, reach
from trainstack.live.teardown import read_live_stack, read_own
from trainstack.objects.ownership import Identity, shown
from trainstack.runs.launches import utc_now
from trainstack.runs.recorded import recorded_launches, state_resource
from trainstack.stacks.teardown_mode import permission

_DEADLINE_SECONDS = 60
"""For what Kubernetes still cleans up when the engine has ended."""
_PAUSE_SECONDS = 1


def teardown(
    *,
    stack: StackOption = "dev",
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="RUN", help="A run id or a sweep that may be stopped. May be given again."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take an environment down for good: runs, queues, operators, definitions, namespaces, in this order.

    It shows first what goes and what stays, and asks. Volumes that are retained stay. Nothing is deleted while an
    active run is not named, or while others still use what would go; they are named. With --json and without --yes it
    only tells.

    Examples:

      trainstack teardown -s dev

      trainstack teardown -s dev --stop digits-0f3c9a1b2d --yes
    """
    session = Session.open(stack)
    try:
        reach(session.settings.cluster.context)
        ensure_same_cluster(session)
        ensure_own_objects(session)
        state = resources(session)
        with step("reading the cluster", "5 s"):
            scene = read_live_stack(
                session.settings,
                retained=_identities(each for each in state if each.get("retainOnDelete")),
                protected=sorted(map(shown, _identities(each for each in state if each.get("protect")))),
                stop=[*(stop or ()), *session.settings.workloads.stop],
                known=_identities(state),
                recorded=recorded_launches(stack, (state_resource(each["urn"], each.get("outputs")) for each in state)),
            )
        plan = decide(scene, utc_now())
        if as_json and (plan.refusals or not yes):
            show_json(_told(stack, plan, ()))
        elif not as_json:
            _show(stack, plan)
        if plan.refusals:
            fail("nothing was deleted:\n" + "\n".join(plan.refusals))
        if as_json and not yes:
            return
        if not plan.deleted and not _identities(state):
            out.print(f"there is nothing to delete; `pulumi stack rm {stack}` forgets its state too")
            return
        if not yes:
            typer.confirm(f"Tear {stack} down?", abort=True, err=True)
        _take_down(session, plan, as_json=as_json)
    except (ToolchainError, ClusterError) as error:
        fail(str(error))


def _take_down(session: Session, plan: Plan, *, as_json: bool) -> None:
    stack = session.stack
    words = ("destroy", "--yes", "--skip-preview", "--run-program")
    with permission(session.root, stack, "teardown") as variables:
        code = pulumi(session, *words, check=False, variables=variables, aside=as_json)
    rest = _await_gone(session, plan, 0 if code else _DEADLINE_SECONDS)
    now = utc_now()
    told = [explained(each, now) for each in rest]
    if as_json:
        show_json(_told(stack, plan, told))
    if told or code:
        said = f"`pulumi destroy` ended with {code}; what it printed above says why. " if code else ""
        rest_told = "\n".join(told or ["nothing in the cluster"])
        fail(
            f"{said}Of {stack} there is still:\n{rest_told}\nNothing that was "
            "finished is lost, and no finalizer is ever taken away: mend what holds them, and run the same command "
            "again"
        )
    if not as_json:
        for who, why in sorted(plan.stays.items(), key=str):
            out.print(f"stays: {shown(who)}: {why}", markup=False)
        out.print(f"nothing else of {stack} is left; `pulumi stack rm {stack}` forgets its state too", markup=False)


def _await_gone(session: Session, plan: Plan, deadline_seconds: float) -> list[Body]:
    """What is left at the end, after waiting; how much it is is said as it changes."""
    end, said = time.monotonic() + deadline_seconds, -1
    while True:
        rest = left(read_own(session.settings), plan.stays)
        if not rest or time.monotonic() >= end:
            return rest
        if len(rest) != said:
            said = len(rest)
            wait = end - time.monotonic()
            err.print(f"  {said} objects are being deleted, for at most {wait:.0f} s more", markup=False)
        time.sleep(_PAUSE_SECONDS)


def _identities(state: Iterable[Mapping[str, Any]]) -> frozenset[Identity]:
    """The Kubernetes objects among the resources of a state."""
    found = set()
    for each in state:
        if each.get("custom") and not each.get("external") and each["type"].startswith("kubernetes:"):
            namespace, _, name = str(each.get("id", "")).rpartition("/")
            found.add((each["type"].rpartition(":")[2], namespace or None, name))
    return frozenset(found)


def _show(stack: str, plan: Plan) -> None:
    for stage, several in plan.stages.items():
        if several:
            out.print(f"goes: {stage}: {', '.join(map(shown, several))}", markup=False)
    for who, why in sorted(plan.stays.items(), key=str):
        out.print(f"stays: {shown(who)}: {why}", markup=False)
    if plan.active and not plan.refusals:
        out.print(f"stops: {', '.join(plan.active)}", style="yellow", markup=False)
    if not plan.deleted:
        out.print(f"nothing of {stack} goes", markup=False)


def _told(stack: str, plan: Plan, rest: Iterable[str]) -> dict[str, Any]:
    return {
        "stack": stack,
        "goes": {stage: list(map(shown, several)) for stage, several in plan.stages.items()},
        "stays": {shown(who): why for who, why in plan.stays.items()},
        "stops": list(plan.active),
        "refusals": list(plan.refusals),
        "left": list(rest),
    }
