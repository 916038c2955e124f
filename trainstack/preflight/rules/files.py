"""Files of the repository that runs name."""

from collections.abc import Iterator

from trainstack.preflight.rule import Check, Rule, Violation
from trainstack.preflight.rule_context import Scene


@Rule(
    id="data-missing",
    severity="error",
    summary="The data manifest that a run names does not exist in the repository.",
    details="The digest of the manifest is part of the run's identity.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, data: {manifest: workloads/digits/dataset.json}}
    """,
    remedy="Prepare the data, and commit the `manifest.json` of the prepared folder under that name.",
    silenceable=False,
)
def data_missing(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        if run.data is not None and not (scene.root / run.data.manifest).is_file():
            message = f"there is no file {run.data.manifest}"
            remedy = "prepare the data and commit the manifest.json of the prepared folder there"
            yield Violation(f"{path}.data.manifest", message, remedy)


@Rule(
    id="dockerfile-missing",
    severity="error",
    summary="The folder of an image has no Dockerfile.",
    change="""
        trainstack:workloads:
          runs:
            - {name: digits, image: {build: workloads/digit}}
    """,
    remedy="Write the Dockerfile, or name an existing image with `image: {name: …}`.",
    silenceable=False,
)
def dockerfile_missing(scene: Scene) -> Iterator[Violation]:
    for path, run in scene.runs():
        folder = run.image.build
        if folder is not None and not (scene.root / folder / "Dockerfile").is_file():
            message = f"there is no {folder}/Dockerfile"
            remedy = "write it, or name an image that exists with `image: {name: …}`"
            yield Violation(f"{path}.image.build", message, remedy)


RULES: tuple[Check[Scene], ...] = (data_missing, dockerfile_missing)
