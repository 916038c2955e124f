"""Rules about the pods of runs and the LimitRanges of their namespaces."""

from collections.abc import Iterator

from trainstack.kueue.limit_ranger import refusals
from trainstack.kueue.pod_requests import requests_and_faults
from trainstack.preflight.live_context import LiveContext
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rules.pod_resources import booked_otherwise, booking_differs, launched_specs


@booking_differs.rule
def booking_of_limit_ranges(context: LiveContext) -> Iterator[Violation]:
    """Yield differences that the cluster's LimitRanges cause, without those that the files already show."""
    reported = {*booked_otherwise(context, context.model_of_files)}
    yield from (found for found in booked_otherwise(context, context.snapshot.model) if found not in reported)


@Rule(
    id="limit-range-refused",
    summary="A LimitRange of the namespace refuses a run's pods, which Kueue does not notice.",
    details=(
        "The run would hold its quota, and have no pods. Kueue compares requests with the bounds of a LimitRange, and "
        "`never-fits` reports those; the API server also compares limits of whole pods and ratios, and requires that "
        "what has a bound is set."
    ),
    example="A limit of four times the request, and a LimitRange with `maxLimitRequestRatio: {cpu: 2}`.",
    remedy="Set requests and limits within the bounds that `kubectl describe limitrange` prints.",
)
def limit_range_refused(context: LiveContext) -> Iterator[Violation]:
    for path, run in context.runs():
        limits = context.snapshot.model.limit_ranges.get(run.namespace, ())
        if not limits or context.settings.queues.dispatches(run.namespace, run.queue):
            continue
        found: dict[Violation, None] = {}
        for pods, spec in launched_specs(context, path, run):
            # Kueue checks a queued run, and never-fits reports what it refuses. A run without a queue is checked here.
            _, of_kueue = requests_and_faults(spec, limits, context.snapshot.model.overheads or {})
            known = of_kueue if run.queue is not None else ()
            texts = (text for text in refusals(spec, limits) if text not in known)
            found |= dict.fromkeys(Violation(pods.resources_path, text) for text in texts)
        yield from found
