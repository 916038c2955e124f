"""Rules about the pods of runs and the LimitRanges of their namespaces."""

from collections.abc import Iterator

from trainstack.kueue.limit_ranger import refusals
from trainstack.kueue.pod_requests import requests_and_faults
from trainstack.kueue.quantities import to_billionths
from trainstack.preflight.live_context import LiveContext
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rules.pod_resources import booking_differs, find_booking_differences, launched_specs


@booking_differs.rule
def booking_differs_on_cluster(context: LiveContext) -> Iterator[Violation]:
    """Yield differences that the cluster's LimitRanges cause, without those that the files already show."""
    reported = {*find_booking_differences(context, context.model_of_files)}
    yield from (
        violation
        for violation in find_booking_differences(context, context.snapshot.model)
        if violation not in reported
    )


@Rule(
    id="limit-range-refused",
    summary="A LimitRange of the namespace refuses a run's pods, which Kueue does not notice, or a volume claim.",
    details=(
        "The run would hold its quota, and have no pods. Kueue compares requests with the bounds of a LimitRange, and "
        "`never-fits` reports those; the API server also compares limits of whole pods and ratios, and requires that "
        "what has a bound is set."
    ),
    example="A limit of four times the request, and a LimitRange with `maxLimitRequestRatio: {cpu: 2}`.",
    remedy="Set requests and limits within the bounds that `kubectl describe limitrange` prints.",
)
def limit_range_refused(context: LiveContext) -> Iterator[Violation]:
    yield from _claim_violations(context)
    for path, run in context.runs():
        limits = context.snapshot.model.limit_ranges.get(run.namespace, ())
        if not limits or context.settings.queues.is_dispatched(run.namespace, run.queue):
            continue
        violations: dict[Violation, None] = {}
        for pods, spec in launched_specs(context, path, run):
            # Kueue checks a queued run, and never-fits reports what it refuses. A run without a queue is checked here.
            model = context.snapshot.model
            _, kueue_faults = requests_and_faults(
                spec,
                limits,
                model.overheads or {},
                defaults_pod_level_requests=model.release.defaults_pod_level_requests,
            )
            reported_faults = kueue_faults if run.queue is not None else ()
            messages = (message for message in refusals(spec, limits) if message not in reported_faults)
            violations |= dict.fromkeys(Violation(pods.resources_path, message) for message in messages)
        yield from violations


def _claim_violations(context: LiveContext) -> Iterator[Violation]:
    """Yield the claims that do not exist yet and are smaller or larger than their namespace allows."""
    for path, volume in context.new_volumes():
        size = to_billionths(volume.size)
        for bounds in context.snapshot.model.limit_ranges.get(volume.namespace, ()):
            if bounds.kind == "PersistentVolumeClaim" and not (
                bounds.minimum.get("storage", size) <= size <= bounds.maximum.get("storage", size)
            ):
                message = f"the namespace's LimitRange does not allow claims of {volume.size}"
                yield Violation(f"{path}.size", message, "set a size that `kubectl describe limitrange` allows")
