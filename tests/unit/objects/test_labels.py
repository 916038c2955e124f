"""The label on all objects of a stack."""

import pytest

from trainstack.errors import TrainstackError
from trainstack.objects.labels import metadata


def test_a_stack_name_that_fits_into_a_label_marks_the_object() -> None:
    """The maximum is 63 characters, the limit of a label's value."""
    assert metadata("x", "s" * 63)["labels"]["trainstack.dev/stack"] == "s" * 63


def test_a_stack_name_that_is_too_long_for_a_label_is_refused() -> None:
    """The message has the limit and the remedy."""
    with pytest.raises(TrainstackError, match=r"has 64 characters.*at most 63; use a shorter name"):
        metadata("x", "s" * 64)


def test_metadata_does_not_keep_hold_of_what_it_was_given() -> None:
    """A later change of the input changes no manifest."""
    labels, annotations = {"a": "1"}, {"b": "2"}
    result = metadata("x", "dev", labels=labels, annotations=annotations)
    result["labels"]["a"] = result["annotations"]["b"] = "changed"
    assert (labels, annotations) == ({"a": "1"}, {"b": "2"})
