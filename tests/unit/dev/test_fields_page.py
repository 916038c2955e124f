"""The page of Kubernetes' fields."""

from pathlib import Path

from trainstack.dev.fields_page import PAGE, render_page

ROOT = Path(__file__).resolve().parents[3]


def test_the_written_page_is_current() -> None:
    """If this fails, run `trainstack dev fields-page`."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render_page()


def test_fields_have_the_remedies_of_messages() -> None:
    page = render_page()
    assert "| `serviceAccountName` | set serviceAccount |" in page
    assert "| `runtimeClassName` | set it under podPatch.spec.runtimeClassName |" in page
    assert "| `nodeSelector` | the same |" in page
    assert "| `name` | set container |" in page
