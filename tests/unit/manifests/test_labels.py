"""The mark on everything that is ours."""

import pytest

from trainstack.errors import TrainstackError
from trainstack.objects.labels import metadata


def test_a_stack_name_that_fits_into_a_label_marks_the_object() -> None:
    """63 characters are the most a label's value holds."""
    assert metadata("x", "s" * 63)["labels"]["trainstack.dev/stack"] == "s" * 63


def test_a_stack_name_that_is_too_long_for_a_label_is_refused() -> None:
    """The message names the limit and the remedy."""
    with pytest.raises(TrainstackError, match=r"has 64 characters.*at most 63; use a shorter name"):
        metadata("x", "s" * 64)


def test_metadata_does_not_keep_hold_of_what_it_was_given() -> None:
    """A later change of the input changes no manifest."""
    labels, annotations = {"a": "1"}, {"b": "2"}
    made = metadata("x", "dev", labels=labels, annotations=annotations)
    made["labels"]["a"] = made["annotations"]["b"] = "changed"
    assert (labels, annotations) == ({"a": "1"}, {"b": "2"})
