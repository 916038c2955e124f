"""Foreign text has no effect in our Markdown."""

from hypothesis import given
from hypothesis import strategies as st

from trainstack.printable import clean
from trainstack.review.markdown import code_span, fence, find_cap, utf16_length


@given(st.text())
def test_nothing_gets_out_of_a_fence(text: str) -> None:
    """No line of the content closes the fence, for any character that counts as the end of a line."""
    first, *lines, last = fence(text).splitlines()
    assert first == last
    assert set(first) == {"`"}
    assert not any(line.strip().startswith(first) for line in lines)


@given(st.text(max_size=300))
def test_nothing_gets_out_of_a_code_span(text: str) -> None:
    """The span is one line without a backtick."""
    span = code_span(text)
    assert span[0] == span[-1] == "`"
    assert "`" not in span[1:-1]
    assert len(span[1:-1].splitlines()) == 1


def test_what_is_not_seen_is_spelt_out() -> None:
    """Colours are removed; invisible characters, and those that reverse text, are shown as their code."""
    assert clean("\x1b[31mred\x1b[0m \u202eevil\u200b\r\nnext") == "red \\u202eevil\\u200b\nnext"


def test_width_counts_as_the_strictest_reader() -> None:
    """A character beyond the basic plane counts as two."""
    assert utf16_length("aé🙂") == 4


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(0, 5000))
def test_the_longest_are_shortened_first(lengths: list[int], budget: int) -> None:
    """All fit, and a cap higher by one would not fit or would change nothing."""
    cap = find_cap(lengths, budget)
    assert sum(min(length, cap) for length in lengths) <= budget
    higher = sum(min(length, cap + 1) for length in lengths)
    assert higher > budget or cap >= max(lengths, default=0)
