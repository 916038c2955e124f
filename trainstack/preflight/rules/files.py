"""Rules about files of the repository that runs name, and about the environment's own file."""

from collections.abc import Iterator

import yaml

from trainstack.files.project import project_file
from trainstack.files.regular import read_bytes
from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.values.published_passphrase import uses_published_passphrase
from trainstack.settings.values.stack_name import stack_file


@Rule(
    id="data-missing",
    summary="The data manifest of a run does not exist in the repository.",
    change=hello("data: {manifest: workloads/hello/data.json, volume: training, path: data}"),
    remedy="Prepare the data, and commit its `manifest.json` under that name.",
    silenceable=False,
)
def data_missing(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.data is not None and not (context.root / run.data.manifest).is_file():
            yield Violation(f"{path}.data.manifest", f"file {run.data.manifest} does not exist")


@Rule(
    id="dockerfile-missing",
    summary="The folder of an image has no Dockerfile.",
    change=hello("image: {name: null, build: workloads/hello}"),
    remedy="Write it, or name an existing image with `image: {name: …}`.",
    silenceable=False,
)
def dockerfile_missing(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        folder = run.image.build
        if folder is not None and not (context.root / folder / "Dockerfile").is_file():
            yield Violation(f"{path}.image.build", f"file {folder}/Dockerfile does not exist")


@Rule(
    id="passphrase-published",
    summary="The secrets of a stack that is not embedded are encrypted with the published passphrase.",
    details="Everyone who can read the file or the state can decrypt them.",
    example="`Pulumi.dev.yaml` without `state: embedded`.",
    remedy="Run `pulumi stack change-secrets-provider` and change the secrets, or set `environment.state: embedded`.",
)
def passphrase_published(context: RuleContext) -> Iterator[Violation]:
    if context.settings.environment.state == "embedded":
        return
    try:
        content = read_bytes(project_file(context.root, stack_file(context.settings.stack)))
        salt = (yaml.load(content, Loader=yaml.CSafeLoader) or {}).get("encryptionsalt")
    except (OSError, yaml.YAMLError, AttributeError):
        return  # The settings were not loaded from this file.
    if isinstance(salt, str) and uses_published_passphrase(salt):
        yield Violation("environment.state", "`encryptionsalt` was made with the published passphrase")
