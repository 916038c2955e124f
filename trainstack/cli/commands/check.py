from dataclasses import replace
from typing import Annotated, Any

import typer

from trainstack.cli.output.check_format import check_tables
from trainstack.cli.output.console import err, fail, show_json, show_tables
from trainstack.cli.releases import as_finding, try_downloads
from trainstack.cli.session import JsonOption, OptionalStackOption, Session, checkout, default_stack, valid_stack
from trainstack.errors import ExitCode
from trainstack.kueue.format import as_data, describe_release
from trainstack.preflight.cluster_checks import CLUSTER_UNREACHABLE
from trainstack.preflight.file_checks import examine, load_error_result
from trainstack.preflight.finding import CheckResult
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.values.stack_name import list_named_stacks
from trainstack.stack_objects.stack_objects import StackObjects


def check(
    context: typer.Context,
    *,
    stack: OptionalStackOption = None,
    every_stack: Annotated[
        bool, typer.Option("--all", help="Check the files of every environment of the project.")
    ] = False,
    cluster: Annotated[bool, typer.Option("--cluster", help="Also check the cluster, which is only read.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Also count as errors what is unknown, and a release of Kueue not compared."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check an environment, and whether each of its runs can be admitted; exit with 4 if there is an error.

    Reads the files, and downloads the operators' releases that they name by address. With --cluster, also reads the
    cluster: kinds, operators, classes, queues, nodes and the current use of quota.

    Examples:
      trainstack check -s dev
      trainstack check -s dev --cluster
      trainstack check --all
      trainstack check -s dev --cluster --strict
      trainstack check -s dev --json
    """
    results: dict[str, CheckResult] = {}
    if every_stack:
        # An environment variable may name a stack, too.
        source = context.get_parameter_source("stack")
        stacks = _every_stack(is_stack_given=source is not None and source.name == "COMMANDLINE", cluster=cluster)
    else:
        stacks = (valid_stack(stack) if stack else default_stack(),)
    for name in stacks:
        results[name] = _check(name, cluster=cluster)
        if not as_json:
            _show(name, results[name], strict=strict)
    if as_json:
        data_by_stack = {name: _as_data(result) for name, result in results.items()}
        show_json({"environments": data_by_stack} if every_stack else next(iter(data_by_stack.values())))
    blocking_ids = {finding.id for result in results.values() for finding in result.findings if finding.is_blocking}
    if blocking_ids or (strict and any(map(_count_unknowns, results.values()))):
        raise typer.Exit(ExitCode.UNREACHABLE if CLUSTER_UNREACHABLE.id in blocking_ids else ExitCode.FINDINGS)


def _every_stack(*, is_stack_given: bool, cluster: bool) -> tuple[str, ...]:
    if is_stack_given:
        fail("--all checks every environment: leave out --stack", ExitCode.USAGE)
    if cluster:
        # Environments have different clusters and kubeconfigs.
        fail("--all checks files alone: check one environment with --cluster", ExitCode.USAGE)
    root = checkout()
    # A file with an invalid name is an error of that environment.
    return list_named_stacks(root) or fail(f"{root} has no environment, such as Pulumi.dev.yaml", ExitCode.USAGE)


def _as_data(check_result: CheckResult) -> dict[str, Any]:
    verdicts = [as_data(verdict) for verdict in check_result.verdicts]
    return {"findings": [finding.as_data() for finding in check_result.findings], "verdicts": verdicts}


def _count_unknowns(check_result: CheckResult) -> int:
    """Return the number of findings and verdicts that `--strict` counts as errors."""
    return sum(finding.severity == "unknown" and not finding.silence_reason for finding in check_result.findings) + sum(
        verdict.outcome == "unknown" for verdict in check_result.verdicts
    )


def _show(stack: str, check_result: CheckResult, *, strict: bool) -> None:
    findings = [finding for finding in check_result.findings if not finding.silence_reason]
    show_tables(check_tables(findings, check_result.verdicts))
    errors, silenced = sum(finding.is_blocking for finding in findings), len(check_result.findings) - len(findings)
    counts = f"{_format_count(errors, 'error')}, {_format_count(len(findings) - errors, 'other finding')}"
    unknowns = (
        f", {unknown_count} unknown (--strict)" if strict and (unknown_count := _count_unknowns(check_result)) else ""
    )
    verdicts = f"; verdicts for {release}" if (release := describe_release(check_result.verdicts)) else ""
    silenced_count = f", {silenced} silenced" if silenced else ""
    err.print(f"{stack}: {counts if findings else 'no findings'}{silenced_count}{unknowns}{verdicts}")


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _check(stack: str, *, cluster: bool) -> CheckResult:
    root = checkout()
    try:
        loaded = load_with_places(root, stack)
    except SettingsError as error:
        return load_error_result(error)
    settings, download_errors = try_downloads(loaded.settings)
    loaded = replace(loaded, settings=settings)
    check_result = examine(StackObjects(settings), root, loaded.places)
    download_findings = [as_finding(error, loaded) for error in download_errors.values()]
    check_result = CheckResult(
        sorted([*check_result.findings, *download_findings], key=lambda finding: finding.sort_key),
        check_result.verdicts,
    )
    if not cluster:
        return check_result
    from trainstack.cli.check_cluster import add_cluster_findings  # noqa: PLC0415 (the cluster client is slow to load)

    return add_cluster_findings(check_result, Session.open(stack), loaded)
