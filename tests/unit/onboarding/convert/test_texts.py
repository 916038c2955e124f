"""The text of an object is its author's, or one that kubectl reads as the same object."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.onboarding.convert.make import JOB, read
from trainstack.onboarding.convert.texts import dump_object, object_text

LIVE = """\
# Kept.
apiVersion: v1
kind: ConfigMap
metadata:
  name: a  # Also kept.
  uid: 0d1f
data: {x: 'yes', y: |-
    1}
status: {}
"""


def test_a_document_is_copied() -> None:
    """With its comments, quotes and order."""
    assert object_text(read(f"---\n\n{JOB}\n\n---\n")[0]) == JOB


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_a_block_scalar_at_the_end_of_a_file_keeps_its_last_line_break(end: str) -> None:
    """Without a line break at the end of the file, its value has none either."""
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  run: |\n    sleep 1{end}"
    (source,) = read(text)
    assert object_text(source) == text.rstrip() + end[:1]


def test_a_document_with_comments_loses_only_what_the_cluster_sets() -> None:
    """Its other lines are the author's."""
    text = object_text(read(LIVE.replace(", y: |-\n    1", ""))[0])
    assert text == "# Kept.\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a  # Also kept.\ndata: {x: 'yes'}\n"


@pytest.mark.parametrize("text", ['{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'])
def test_json_becomes_yaml(text: str) -> None:
    """Which is the form of the project's files."""
    assert object_text(read(text)[0]) == "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"


@given(st.text(max_size=8) | st.sampled_from(["y", "No", "0755", "1e3", "~", "2024-01-01", "a\nb\n", "=", "<<", ".5"]))
def test_a_string_is_read_as_it_was(value: str) -> None:
    """Whatever kubectl would read in its place without quotes."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}}
    assert read(dump_object(body))[0].body == body
