"""The short form of the benchmarks, compared with the stored ratios."""

from pathlib import Path

import pytest

from bench import baseline, scenes
from bench.cases import CASES
from bench.results import Results
from bench.runner import run
from tests.cluster.project import Project
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = pytest.mark.cluster


def test_no_ratio_is_a_quarter_worse_than_the_stored_one(dev: Project, cluster: LocalCluster, tmp_path: Path) -> None:
    """A worse case is measured a second time: a disturbance seldom slows both measurements."""
    with scenes.on_cluster(dev.root, dev.variables, cluster, tmp_path, short=True) as on_cluster:
        places = {"files": scenes.files(tmp_path, short=True), "cluster": on_cluster}

        def measured(names: set[str]) -> Results:
            return Results(cases=tuple(run(case, places[case.place], print) for case in CASES if case.id in names))

        stored = baseline.load()
        first = measured({case.id for case in CASES if case.short_rounds})
        suspects = {regression.case for regression in baseline.regressions(first, stored)}
        found = baseline.regressions(measured(suspects), stored)
    print({case.id: case.ratios for case in first.cases})
    known = stored.by_id()
    assert {case.id: sorted(case.ratios) for case in first.cases} == {
        case.id: sorted(case.ratios.keys() & known[case.id].ratios.keys()) for case in first.cases
    }, "an arm has no stored ratio"
    assert not found, "\n".join(map(str, found))
