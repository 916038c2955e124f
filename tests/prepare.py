"""Build what the tests need beyond the tools of commands, side by side: `python -m tests.prepare`.

Tests build the same if it is missing, one after the other, while the processes of other tests wait.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.admission.tables import dump
from tests.cluster import forge
from tests.local_clusters import dev_images
from trainstack.local_cluster.images import ensure_built, git
from trainstack.local_cluster.sites import definition, images
from trainstack.toolchain import tools
from trainstack.toolchain.groups import GROUPS


def build_images() -> None:
    """Build the images of dev, of code checkouts and of the reference systems. Does nothing if they are built."""
    of_sites = [
        recipe for name in definition.site_names() for recipe in images.site_recipes(definition.load_site(name))
    ]
    ensure_built([*dev_images(), git(), forge.recipe(), *of_sites], print)


def build_judges() -> None:
    """Build the programs of tests, such as the schedulers of Kueue's releases, and record the cases of its tests."""
    tools.ensure([group.name for group in GROUPS if group.for_tests])
    dump.dumps()


def main() -> None:
    """Build everything, and raise the first error."""
    works: tuple[Callable[[], None], ...] = (build_images, build_judges)
    with ThreadPoolExecutor() as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()


if __name__ == "__main__":
    main()
