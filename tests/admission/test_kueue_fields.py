"""The committed list of Kueue's fields and feature gates is that of the modules; no cluster is needed."""

import json

from tests.admission.kueue_fields import FILE, fields_of_all_releases


def test_the_committed_fields_are_those_of_the_modules() -> None:
    """A new release changes them, and then trainstack/kueue/fields.py, feature_gates.py and differences.py."""
    assert json.loads(FILE.read_text()) == fields_of_all_releases()
