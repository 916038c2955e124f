"""Files of the repository that runs name."""

from collections.abc import Iterator

from trainstack.preflight.examples import digits
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext


@Rule(
    id="data-missing",
    summary="The data manifest of a run does not exist in the repository.",
    change=digits("data: {manifest: workloads/digits/dataset.json}"),
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
    change=digits("image: {build: workloads/digit}"),
    remedy="Write it, or name an existing image with `image: {name: …}`.",
    silenceable=False,
)
def dockerfile_missing(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        folder = run.image.build
        if folder is not None and not (context.root / folder / "Dockerfile").is_file():
            yield Violation(f"{path}.image.build", f"file {folder}/Dockerfile does not exist")
