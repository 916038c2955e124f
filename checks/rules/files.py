"""Files of the repository that runs name."""

from collections.abc import Iterator

from checks.finding import Finding
from checks.scene import Rule, Scene


def data_missing(scene: Scene) -> Iterator[Finding]:
    """A run's data manifest is in the repository: its digest is part of the run's identity."""
    for path, run in scene.runs():
        if run.data is not None and not (scene.root / run.data.manifest).is_file():
            message = f"there is no file {run.data.manifest}"
            remedy = "prepare the data and commit the manifest.json of the prepared folder there"
            yield Finding("data-missing", "error", f"{path}.data.manifest", message, remedy)


def dockerfile_missing(scene: Scene) -> Iterator[Finding]:
    """An image's folder has a Dockerfile."""
    for path, run in scene.runs():
        folder = run.image.build
        if folder is not None and not (scene.root / folder / "Dockerfile").is_file():
            message = f"there is no {folder}/Dockerfile"
            remedy = "write it, or name an image that exists with `image: {name: …}`"
            yield Finding("dockerfile-missing", "error", f"{path}.image.build", message, remedy)


RULES: tuple[Rule, ...] = (data_missing, dockerfile_missing)
