"""Files of the repository that runs name."""

from collections.abc import Iterator

from checks.rule import Check, Rule, Violation
from checks.scene import Scene


@Rule(
    id="data-missing",
    severity="error",
    summary="The data manifest that a run names is not in the repository; its digest is part of the run's identity.",
    example="`data: {manifest: workloads/digits/data.json, …}` before the data was prepared.",
    remedy="Prepare the data, and commit the `manifest.json` of the prepared folder there.",
    silenceable=False,
)
def data_missing(scene: Scene) -> Iterator[Violation]:
    """A run's data manifest is in the repository: its digest is part of the run's identity."""
    for path, run in scene.runs():
        if run.data is not None and not (scene.root / run.data.manifest).is_file():
            message = f"there is no file {run.data.manifest}"
            remedy = "prepare the data and commit the manifest.json of the prepared folder there"
            yield Violation(f"{path}.data.manifest", message, remedy)


@Rule(
    id="dockerfile-missing",
    severity="error",
    summary="The folder that an image is built from has no Dockerfile.",
    example="`image: {build: workloads/digit}`.",
    remedy="Write it, or name an image that exists with `image: {name: …}`.",
    silenceable=False,
)
def dockerfile_missing(scene: Scene) -> Iterator[Violation]:
    """An image's folder has a Dockerfile."""
    for path, run in scene.runs():
        folder = run.image.build
        if folder is not None and not (scene.root / folder / "Dockerfile").is_file():
            message = f"there is no {folder}/Dockerfile"
            remedy = "write it, or name an image that exists with `image: {name: …}`"
            yield Violation(f"{path}.image.build", message, remedy)


RULES: tuple[Check[Scene], ...] = (data_missing, dockerfile_missing)
