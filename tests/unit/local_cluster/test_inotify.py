"""The limit of inotify instances, which several local clusters exceed."""

from pathlib import Path

import pytest

from trainstack.local_cluster.cluster import INOTIFY_INSTANCES, _raise_inotify_limit


@pytest.mark.parametrize(
    ("before", "after"), [(128, INOTIFY_INSTANCES), (INOTIFY_INSTANCES * 2, INOTIFY_INSTANCES * 2)]
)
def test_the_limit_is_raised_and_never_lowered(tmp_path: Path, before: int, after: int) -> None:
    limit, reports = tmp_path / "max_user_instances", list[str]()
    limit.write_text(f"{before}\n")
    _raise_inotify_limit(reports.append, limit)
    assert int(limit.read_text()) == after
    assert bool(reports) == (before != after)


def test_a_limit_that_cannot_be_raised_is_reported_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, reports = tmp_path / "max_user_instances", list[str]()
    limit.write_text("128\n")

    def refused(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refused)
    _raise_inotify_limit(reports.append, limit)
    (report,) = reports
    assert f"sysctl fs.inotify.max_user_instances={INOTIFY_INSTANCES}" in report
