"""The committed list of Kueue's fields and feature gates is the pinned module's; no cluster is needed."""

import json

from tests.admission.kueue_fields import FILE, kueue_fields
from trainstack.dev.toolchain import gotool
from trainstack.dev.toolchain.build import Builder
from trainstack.dev.toolchain.groups import BY_NAME


def test_the_committed_fields_are_those_of_the_module() -> None:
    """A new release changes them, and then trainstack/kueue/fields.py and feature_gates.py."""
    module = Builder(gotool.choose()).module_folder(BY_NAME["cluster"], "sigs.k8s.io/kueue")
    assert json.loads(FILE.read_text()) == kueue_fields(module)
