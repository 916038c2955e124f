"""Faults of a pod patch have the line of the value, at any depth."""

from pathlib import Path

from tests.unit.settings.loading.test_load import runs_of

PATCH = """\
    - name: train
      namespace: a
      podPatch:
        spec:
          hostNetwrk: true
          priority: high
          tolerations:
            - {$patch: delete}
          containers:
            - {image: x}
            - name: training
              resources: {limits: {cpu: 1 core}}
              env: [{name: A, $patch: merge}]
              $retainKeys: [name]
"""


FAULTS = """\
8: hostNetwrk: is not a field of PodSpec (value true); did you mean hostNetwork?
9: priority: must be an integer (value "high"); write an integer
11: tolerations[0]: is an element of a list that is replaced, not merged (value a map); remove $patch
13: containers[0]: has no name, by which it is merged (value a map); add name
15: containers[training].resources.limits.cpu: '1 core' is not a quantity (value "1 core"); write a Kubernetes \
quantity such as "500m", "2" or "1Gi"
16: containers[training].env[A]["$patch"]: 'merge' is not one of delete, replace (value "merge"); valid names: delete, \
replace
17: containers[training]["$retainKeys"]: is not a supported directive (value a list); use $patch, or leave it out
"""


def test_each_fault_of_a_patch_has_its_line_path_and_remedy(tmp_path: Path) -> None:
    """The faults are found by Kubernetes' schema and reported together."""
    path = "workloads.runs[train].podPatch.spec."
    found = [fault.removeprefix("Pulumi.test.yaml:").replace(path, "") for fault in runs_of(tmp_path, PATCH)]
    assert found == FAULTS.splitlines()


TWICE = """\
    - name: train
      namespace: a
      podPatch:
        spec:
          containers:
            - name: proxy
              image: x
              ports:
                - {containerPort: 53}
                - {containerPort: 53, protocol: UDP}
                - {containerPort: 53, protocol: TCP}
              env: [{name: A, value: x}, {name: B}, {name: A, $patch: delete}]
            - {name: proxy, image: y}
          topologySpreadConstraints:
            - {topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
            - {topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
          tolerations: [{key: a}, {key: a}]
"""


def test_an_element_is_listed_once(tmp_path: Path) -> None:
    """If the API server merges two elements, the run id would contain only the second."""
    path = "workloads.runs[train].podPatch.spec.containers"
    found = [fault.removeprefix("Pulumi.test.yaml:").replace(path, "") for fault in runs_of(tmp_path, TWICE)]
    assert found == [
        "14: [0].ports[2]: is listed twice (value a map); merge both",
        "15: [0].env[2]: is listed twice (value a map); merge both",
        "16: [1]: is listed twice (value a map); merge both",
    ]


def test_a_patch_is_a_map_of_the_template(tmp_path: Path) -> None:
    """It has `spec`, and `metadata` with only labels and annotations."""
    line, path = "    - {name: train, namespace: a, podPatch: {spec: [], metadata: {name: x}}}\n", "podPatch."
    assert [fault.partition(path)[2] for fault in runs_of(tmp_path, line)] == [
        "spec: must be a map (value a list); write a map",
        'metadata.name: is not a field of ObjectMeta (value "x"); valid names: annotations, labels',
    ]
