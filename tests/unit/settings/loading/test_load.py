"""An environment's files become one `Settings`, or an error with all faults."""

import json
import time
from pathlib import Path
from textwrap import dedent, indent

import pytest

from trainstack.settings.errors import ENGINE_PLACE, Place, SettingsError
from trainstack.settings.loading.load import list_scalars, load, load_with_places

ROOT = Path(__file__).resolve().parents[4]

BASE = """
kind: Job
image: {name: "python:3.11"}
command: [python3, train.py]
env: {A: base, B: base}
record: {volume: training}
seed: 1
"""
DEFAULTS = """
operators:
  kueue:
    manifest: {version: v0.15.2, path: kueue.yaml, sha256: "%s"}
queues:
  priorityClasses:
    - {name: low, value: 100}
    - {name: high, value: 1000}
""" % ("0" * 64)


def make_project(root: Path, config: str, **files: str) -> Path:
    """Write a project with one environment `test`, the defaults and the workload `train`."""
    (root / "workloads/train").mkdir(parents=True)
    (root / "workloads/train/workload.yaml").write_text(BASE, encoding="utf-8")
    (root / "defaults.yaml").write_text(DEFAULTS, encoding="utf-8")
    (root / "Pulumi.test.yaml").write_text("config:\n" + indent(dedent(config), "  "), encoding="utf-8")
    for name, text in files.items():
        (root / name.replace("__", "/")).write_text(dedent(text), encoding="utf-8")
    return root


def faults(root: Path, stack: str = "test", engine: dict[str, str] | None = None) -> list[str]:
    """Return the faults of an environment."""
    with pytest.raises(SettingsError) as error:
        load(root, stack, engine)
    return [str(finding) for finding in error.value.findings]


def runs_of(root: Path, config: str) -> list[str]:
    """Return the faults of an environment whose runs are these lines."""
    return faults(make_project(root, f"trainstack:workloads:\n  runs:\n{config}"))


def test_the_dev_environment_loads() -> None:
    """The embedded default is complete: its run is from the workload's own file."""
    settings = load(ROOT, "dev")
    assert [(run.name, run.kind, run.namespace) for run in settings.workloads.runs] == [
        ("digits", "TrainJob", "research")
    ]


def test_three_files_make_a_run(tmp_path: Path) -> None:
    """The environment overrides the workload's file by the merge rule, and `from` is removed."""
    root = make_project(
        tmp_path,
        """\
          trainstack:workloads:
            runs:
              - {name: train, namespace: a}
              - {name: twin, from: train, namespace: a, env: {B: own}, seed: null}
        """,
    )
    train, twin = load(root, "test").workloads.runs
    assert train.model_dump(exclude_unset=True) == {
        "name": "train",
        "kind": "Job",
        "namespace": "a",
        "image": {"name": "python:3.11"},
        "command": ("python3", "train.py"),
        "env": {"A": "base", "B": "base"},
        "record": {"volume": "training"},
        "seed": 1,
    }
    assert twin == train.model_copy(update={"name": "twin", "env": {"A": "base", "B": "own"}, "seed": None})


def test_a_run_without_a_base_is_complete(tmp_path: Path) -> None:
    """A run without a workload folder has all values itself."""
    root = make_project(
        tmp_path,
        """\
          trainstack:workloads:
            runs:
              - {name: own, namespace: a, kind: Job, managed: false, image: {name: busybox}}
        """,
    )
    assert [run.name for run in load(root, "test").workloads.runs] == ["own"]


RUN = "Pulumi.test.yaml:4: workloads.runs[train]"
RUNS = """\
trainstack:workloads:
  exclude: [{}]
  runs:
    - {{name: cpu, from: train, namespace: a}}
    - {{name: gpu, from: train, namespace: a, dependsOn: [cpu]}}
    - {{name: alone, from: train, namespace: a, dependsOn: [cpu, gpu]}}
"""


@pytest.mark.parametrize(
    ("excluded", "runs"),
    [
        ("", {"cpu": (), "gpu": ("cpu",), "alone": ("cpu", "gpu")}),
        ("gpu", {"cpu": (), "alone": ("cpu",)}),
        ("cpu", {"gpu": (), "alone": ("gpu",)}),
        ("cpu, gpu", {"alone": ()}),
    ],
)
def test_an_excluded_run_is_not_declared_and_nothing_waits_for_it(
    tmp_path: Path, excluded: str, runs: dict[str, tuple[str, ...]]
) -> None:
    """One line can therefore select a variant, and the order of the other runs is kept."""
    root = make_project(tmp_path, RUNS.format(excluded))
    assert {run.name: run.depends_on for run in load(root, "test").workloads.runs} == runs


def test_excluding_an_unknown_run_is_a_fault(tmp_path: Path) -> None:
    """A misspelt name would not exclude the run."""
    assert faults(make_project(tmp_path, RUNS.format("gpus"))) == [
        "Pulumi.test.yaml:2: workloads: exclude lists gpus, which is not a run; did you mean gpu?"
    ]


@pytest.mark.parametrize(("operators", "installed"), [("{}", False), ("{kueue: {}}", True), ("{kueue: null}", False)])
def test_defaults_of_operators_are_templates(tmp_path: Path, operators: str, installed: bool) -> None:
    """An operator of defaults.yaml is installed only if the environment names it."""
    settings = load(make_project(tmp_path, f"  trainstack:operators: {operators}\n"), "test")
    assert (settings.operators.kueue is not None) == installed


def test_a_project_without_defaults_has_the_releases_of_trainstack(tmp_path: Path) -> None:
    """Their place is the operator's entry, since the project lacks the file that has them."""
    root = make_project(tmp_path, "trainstack:operators:\n  kueue: {}\n  trainingOperator: {}\n")
    (root / "defaults.yaml").unlink()
    loaded = load_with_places(root, "test")
    for path, line in (("operators.kueue", 3), ("operators.trainingOperator", 4)):
        assert {loaded.places[f"{path}.manifest.{key}"] for key in ("version", "path", "sha256")} == {
            Place("Pulumi.test.yaml", line, 5)
        }
    operator = loaded.settings.operators.training_operator
    assert operator is not None
    assert operator.init_container_image == "alpine:3.10"


def test_other_defaults_apply_unless_overridden(tmp_path: Path) -> None:
    """Named elements of defaults.yaml apply, can be changed by name, and can all be removed."""
    changed = make_project(tmp_path / "a", "  trainstack:queues: {priorityClasses: [{name: low, value: 5}]}\n")
    emptied = make_project(tmp_path / "b", "  trainstack:queues: {priorityClasses: null}\n")
    assert [(item.name, item.value) for item in load(changed, "test").queues.priority_classes] == [
        ("low", 5),
        ("high", 1000),
    ]
    assert load(emptied, "test").queues.priority_classes == ()


def test_explain_shows_the_place_of_each_value(tmp_path: Path) -> None:
    """Every value has the file and line that set it."""
    root = make_project(
        tmp_path,
        """\
          trainstack:queues: {priorityClasses: null}
          trainstack:workloads:
            runs:
              - name: train
                namespace: a
                env: {B: own}
        """,
    )
    assert [(path, value, str(where)) for path, value, where in list_scalars(root, "test")] == [
        ("workloads.runs[train].kind", "Job", "workloads/train/workload.yaml:2"),
        ("workloads.runs[train].image.name", "python:3.11", "workloads/train/workload.yaml:3"),
        ("workloads.runs[train].command[0]", "python3", "workloads/train/workload.yaml:4"),
        ("workloads.runs[train].command[1]", "train.py", "workloads/train/workload.yaml:4"),
        ("workloads.runs[train].env.A", "base", "workloads/train/workload.yaml:5"),
        ("workloads.runs[train].env.B", "own", "Pulumi.test.yaml:7"),
        ("workloads.runs[train].record.volume", "training", "workloads/train/workload.yaml:6"),
        ("workloads.runs[train].seed", 1, "workloads/train/workload.yaml:7"),
        ("workloads.runs[train].name", "train", "Pulumi.test.yaml:5"),
        ("workloads.runs[train].namespace", "a", "Pulumi.test.yaml:6"),
    ]


def test_places_fall_back_to_the_enclosing_value(tmp_path: Path) -> None:
    """A model's default has the place of its element; a value in no file has that of `config:`."""
    root = make_project(tmp_path, "  trainstack:cluster: {context: one}\n")
    loaded = load_with_places(root, "test")
    assert loaded.place_of("cluster.registry") == Place("Pulumi.test.yaml", 2, 3)
    assert loaded.place_of("queues.priorityClasses[low].adopt") == Place("defaults.yaml", 7, 7)
    assert loaded.place_of("storage.volumes") == Place("Pulumi.test.yaml", 1, 1)


def test_the_engine_agrees_with_the_file() -> None:
    """The engine's configuration of the dev environment changes nothing."""
    config = {
        "trainstack:cluster": json.dumps({"local": True, "registry": "registry.local"}),
        "kubernetes:context": "elsewhere",
    }
    loaded = load_with_places(ROOT, "dev", config)
    assert loaded.settings.cluster == load(ROOT, "dev").cluster


def test_a_different_value_of_the_engine_wins(tmp_path: Path) -> None:
    """Its place is the engine."""
    root = make_project(tmp_path, "  trainstack:cluster: {context: one, registry: here}\n")
    loaded = load_with_places(root, "test", {"trainstack:cluster": '{"context": "two", "registry": "here"}'})
    assert (loaded.settings.cluster.context, loaded.settings.cluster.registry) == ("two", "here")
    assert loaded.place_of("cluster.context") == Place(ENGINE_PLACE)
    assert loaded.place_of("cluster.registry") == Place("Pulumi.test.yaml", 2, 38)


def test_faults_of_the_engines_configuration_name_the_engine(tmp_path: Path) -> None:
    """Unknown keys fail as in a file."""
    root = make_project(tmp_path, "  trainstack:cluster: {context: one}\n")
    engine = {"trainstack:cluster": '{"contxt": "two"}', "trainstack:quues": "{}", "trainstack:queues": "word"}
    assert faults(root, engine=engine) == [
        f"{ENGINE_PLACE}: unknown key trainstack:quues; did you mean trainstack:queues?",
        f"{ENGINE_PLACE}: cluster: unknown key contxt; did you mean context?",
        f'{ENGINE_PLACE}: queues: must be a map (value "word"); write a map',
    ]


def test_the_error_about_a_missing_environment_lists_the_others(tmp_path: Path) -> None:
    """It also names the missing file."""
    root = make_project(tmp_path, "", **{"Pulumi.prod.yaml": ""})
    assert faults(root, "dev") == [
        (
            "Pulumi.dev.yaml: the environment's file does not exist; "
            "create Pulumi.dev.yaml, or use one of this project's environments: prod, test"
        ),
    ]


def test_faults_describe_the_formats_of_an_object_in_words(tmp_path: Path) -> None:
    """They do not show the regular expressions."""
    root = make_project(
        tmp_path,
        """\
          trainstack:workloads:
            runs:
              - name: a
                kind: Object
                namespace: n
                managed: false
                image: {name: example.org/a}
                resources: {limits: {cpu: 1, memory: 1Gi}}
                roles: {worker_1: {}}
                object:
                  apiVersion: batch/v1
                  kind: jaxJob
                  framework: JAX Job
                  pods: [{name: w, template: metadata.a}]
                  failed: {path: spec.a, values: [x]}
        """,
    )
    prefix = "workloads.runs[a].object"
    ends = "use letters, digits and '-', with a letter or digit at both ends"
    path = "write a path such as spec.template or spec.groups[0].template"
    assert [fault.partition(": ")[2].replace(": has an invalid format", ":") for fault in faults(root)] == [
        f"workloads.runs[a].roles.worker_1: the key worker_1 has an invalid format; {ends}",
        (
            f"{prefix}.apiVersion: 'batch/v1' is an API of Kubernetes itself, not of an operator; set kind of the run "
            "to Job or Pod, or write the API of an operator, such as kubeflow.org/v1"
        ),
        f'{prefix}.kind: (value "jaxJob"); use letters and digits, with an upper-case letter at the beginning',
        f'{prefix}.framework: (value "JAX Job"); write Kueue\'s name of an integration, such as kubeflow.org/jaxjob',
        f'{prefix}.pods[w].template: (value "metadata.a"); {path}',
        f'{prefix}.failed.path: (value "spec.a"); write a path such as status.state',
    ]


def test_all_faults_are_reported_sorted_by_file_and_line(tmp_path: Path) -> None:
    """One error has all faults of both files, each with value and remedy."""
    root = make_project(
        tmp_path,
        """\
          storage: {}
          trainstack:storge: {}
          trainstack:storage:
            volumes:
              - {name: v, namespace: n, storageClass: s, size: 2 GB, accessModes: [RWX], node_labels: {}}
              - {name: W, namespace: n, storageClass: s, size: 1.5, accessModes: []}
          trainstack:environment: {profile: admin, namespaces: {name: a}}
        """,
        **{"defaults.yaml": "queues:\n  priorityClasses:\n    - {name: low, value: '7'}\nqueue: {}\n"},
    )
    file = "Pulumi.test.yaml"
    ends = "use lower-case letters, digits and '-', with a letter or digit at both ends"
    modes = "ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod"
    quantity = 'write a Kubernetes quantity such as "500m", "2" or "1Gi"'
    assert faults(root) == [
        f"{file}:2: storage: the key has no project prefix; write trainstack:storage",
        f"{file}:3: unknown key trainstack:storge; did you mean trainstack:storage?",
        f"{file}:6: storage.volumes[v].size: '2 GB' is not a quantity; {quantity}",
        f'{file}:6: storage.volumes[v].accessModes[0]: is not supported (value "RWX"); write {modes}',
        f"{file}:6: storage.volumes[v]: unknown key node_labels; did you mean labels?",
        f'{file}:7: storage.volumes[W].name: has an invalid format (value "W"); {ends}',
        f'{file}:7: storage.volumes[W].size: must not be a floating-point number (value 1.5); write "1.5", in quotes',
        f"{file}:7: storage.volumes[W].accessModes: must have at least 1 element (value a list); add one",
        f'{file}:8: environment.profile: is not supported (value "admin"); write owner or tenant',
        f"{file}:8: environment.namespaces: must be a list (value a map); write a list",
        'defaults.yaml:3: queues.priorityClasses[low].value: must be an integer (value "7"); write an integer',
        "defaults.yaml:4: unknown key queue; did you mean queues?",
    ]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            "{name: trian}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[trian]: is incomplete, and there is no "
                    "workloads/trian/workload.yaml with the missing values; did you mean train? (set it with `from:`)"
                ),
            ],
        ),
        (
            "{name: a, from: trian}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[a].from: is not a folder with a workload.yaml (value trian); "
                    "did you mean train?"
                ),
            ],
        ),
        (
            "{name: train}",
            ["Pulumi.test.yaml:4: workloads.runs[train].namespace: is missing; add `namespace:`"],
        ),
        (
            "{name: train, namespace: a, kind: null}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[train].kind: is missing; "
                    "add `kind:` (Pod or Job or PyTorchJob or DataLoader or TrainJob or JobSet or MPIJob or RayJob or "
                    "Object)"
                ),
            ],
        ),
        (
            "{name: train, namespace: a, managed: yes, attempt: 0, args: [0.05, true]}",
            [
                (
                    'Pulumi.test.yaml:4: workloads.runs[train].managed: must be true or false (value "yes"); '
                    "write true or false"
                ),
                "Pulumi.test.yaml:4: workloads.runs[train].attempt: must be at least 1 (value 0); raise it",
                f'{RUN}.args[0]: must be a string (value 0.05); write "0.05", in quotes',
                f'{RUN}.args[1]: must be a string (value true); write "true", in quotes',
            ],
        ),
        (
            "{name: train, namespace: a, kind: PyTorchJob, record: null}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: a PyTorchJob needs roles.Master, unless it is elastic; "
                    "add it"
                ),
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: a managed workload needs a record; "
                    "set the volume that its runs are recorded on"
                ),
            ],
        ),
        (
            "{name: train, namespace: a, kind: PyTorchJob, roles: {Mastr: {}}}",
            [
                "Pulumi.test.yaml:4: workloads.runs[train]: a PyTorchJob has no role Mastr; did you mean Master?",
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: a PyTorchJob needs roles.Master, unless it is elastic; "
                    "add it"
                ),
            ],
        ),
        (
            "{name: train, namespace: a, kind: Pod, backoffLimit: 3, roles: {Master: {}}}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: a Pod has no backoffLimit; "
                    "leave it out (kinds that have it: Job, PyTorchJob, DataLoader, TrainJob, JobSet, MPIJob, RayJob)"
                ),
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: a Pod has no roles; "
                    "leave it out (kinds that have it: PyTorchJob, TrainJob, MPIJob, RayJob, Object)"
                ),
            ],
        ),
        (
            "{name: train, namespace: a, kind: PyTorchJob, container: main, roles: {Master: {replicas: 2}}}",
            [
                "Pulumi.test.yaml:4: workloads.runs[train]: a PyTorchJob has one Master; leave out its replicas",
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: the container of a PyTorchJob must be named pytorch "
                    "(got main); leave out container"
                ),
            ],
        ),
        (
            "{name: train, namespace: a, kind: PyTorchJob, elastic: {maxReplicas: 2}, roles: {}}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[train]: a managed workload needs a rank 0, which writes the "
                    "record; add roles.Master, or set managed to false"
                ),
                "Pulumi.test.yaml:4: workloads.runs[train]: an elastic PyTorchJob needs roles.Worker; add it",
            ],
        ),
        (
            "{name: train, namespace: a, kind: PyTorchJob, elastic: {maxReplicas: 2, metrics: []}, nprocPerNode: 2}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[train].elastic: metrics enable an autoscaler, and Kueue "
                    "suspends a job that is resized; leave metrics out"
                ),
                f'{RUN}.nprocPerNode: must be a string (value 2); write "2", in quotes',
            ],
        ),
        (
            "{name: train, namespace: a, kind: PyTorchJob, elastic: {minReplicas: 3, maxReplicas: 2}}",
            [
                (
                    "Pulumi.test.yaml:4: workloads.runs[train].elastic: maxReplicas is 2, below minReplicas 3; "
                    "raise maxReplicas"
                ),
            ],
        ),
        *(
            (
                f"{{name: train, namespace: a, restartPolicy: Always, {run}}}",
                [
                    (
                        "Pulumi.test.yaml:4: workloads.runs[train]: restartPolicy Always restarts a program that has "
                        "succeeded, so only an unmanaged Pod may have it; set Never or OnFailure"
                    ),
                ],
            )
            for run in ("kind: Pod", "kind: Job", "kind: Job, managed: false", "kind: DataLoader, managed: false")
        ),
        ("3", ["Pulumi.test.yaml:4: workloads.runs[0]: must be a map (value 3); write a map"]),
    ],
)
def test_faults_of_a_run(tmp_path: Path, run: str, expected: list[str]) -> None:
    """The faults have the run, the value and the remedy."""
    assert runs_of(tmp_path, f"      - {run}\n") == expected


def test_a_fault_of_a_shared_file_is_reported_once(tmp_path: Path) -> None:
    """Two runs of one workload.yaml do not duplicate its faults."""
    config = "  trainstack:workloads: {runs: [{name: train, namespace: a}, {name: two, from: train, namespace: a}]}\n"
    root = make_project(tmp_path, config, **{"workloads__train__workload.yaml": BASE + "sed: 1\n"})
    assert faults(root) == [
        "workloads/train/workload.yaml:8: workloads.runs[train]: unknown key sed; did you mean seed?"
    ]


@pytest.mark.parametrize("file", ["Pulumi.test.yaml", "defaults.yaml", "workloads/train/workload.yaml"])
def test_a_file_that_cannot_be_parsed_is_the_only_fault(tmp_path: Path, file: str) -> None:
    """Values are not reported as missing, or as wrong, because those of the file were not read."""
    config = "  trainstack:operators: {kueue: {}}\n  trainstack:workloads: {runs: [{name: train, namespace: a}]}\n"
    root = make_project(tmp_path, config)
    (root / file).write_text("volumes: [\n", encoding="utf-8")
    assert [fault.partition(": did not")[0] for fault in faults(root)] == [f"{file}:2: invalid YAML"]


def test_keys_of_kubernetes_have_remedies_of_their_own(tmp_path: Path) -> None:
    """A similar name of a setting would mean something else."""
    keys = "initContainers: [], ports: [], preemptionPolicy: Never, spec: {}, dnsPolicy: None, imag: {}"
    run = f"{{name: train, namespace: a, {keys}, volumes: [{{name: data, subPathExpr: a}}]}}"
    found = [fault.partition("unknown key ")[2] for fault in runs_of(tmp_path, f"      - {run}\n")]
    assert sorted(filter(None, found)) == [
        "dnsPolicy; set it under podPatch.spec.dnsPolicy",
        "imag; did you mean image?",
        "initContainers; set it under podPatch.spec.initContainers",
        "name; set volume, the name of the claim",
        "ports; set it in podPatch.spec.containers, as {name: <container>, ports: …}",
        "preemptionPolicy; set priorityClassName, a PriorityClass, which has the policy",
        "spec; set the whole object as manifest, or let `trainstack convert FILE` write the run",
        "subPathExpr; mount it under podPatch.spec.containers",
    ]


def test_a_manifest_in_another_section_is_recognized(tmp_path: Path) -> None:
    queue = "{name: a, namespace: n, spec: {clusterQueue: a}}"
    root = make_project(tmp_path, f"  trainstack:queues: {{localQueues: [{queue}]}}\n")
    remedy = "let `trainstack convert FILE` write the object as keys of this section"
    assert f"unknown key spec; {remedy}" in faults(root)[1]


def test_the_error_reads_as_a_list(tmp_path: Path) -> None:
    """Users read the text of the exception."""
    root = make_project(tmp_path, "  trainstack:cluster: {contxt: a}\n")
    with pytest.raises(SettingsError) as error:
        load(root, "test")
    assert str(error.value) == (
        "environment 'test' has 1 fault:\n  Pulumi.test.yaml:2: cluster: unknown key contxt; did you mean context?"
    )


def test_a_fault_contains_no_terminal_escapes(tmp_path: Path) -> None:
    """Anyone may send a file with such a key for review."""
    messages = runs_of(tmp_path, r"""    - {name: a, base: train, namespace: n, "\e[2J\e]0;gone\a": 1}""")
    assert any(r"\x1b[2J\x1b]0;gone\x07" in fault for fault in messages)
    assert all(fault.isprintable() for fault in messages)


def test_the_fault_of_a_map_instead_of_a_value_has_a_remedy_too(tmp_path: Path) -> None:
    """It has the expected type and an example."""
    config = """
    trainstack:storage:
      volumes:
        - {name: v, namespace: n, storageClass: c, accessModes: [ReadWriteMany], size: {name: 2Gi}}
    """
    (fault,) = faults(make_project(tmp_path, config))
    assert fault.endswith('is not a quantity; write a Kubernetes quantity such as "500m", "2" or "1Gi"')


def test_thousands_of_faults_are_reported_without_delay(tmp_path: Path) -> None:
    """Each has its index in the list. All of them take less than a second; it took ten before."""
    project = make_project(tmp_path, f"trainstack:queues:\n  cohorts: [{', '.join(['1'] * 5_000)}]\n")
    start = time.process_time()
    found = faults(project)
    assert time.process_time() - start < 1
    assert len(found) == 5_000
    assert found[0].startswith("Pulumi.test.yaml:3: queues.cohorts[0]: must be a map")


def test_each_of_many_faults_has_its_place(tmp_path: Path) -> None:
    """Faults of several elements of a list have separate paths."""
    found = faults(
        make_project(tmp_path, "trainstack:queues:\n  cohorts:\n    - {name: a, b: 1}\n    - {name: c, d: 1}\n")
    )
    assert [fault.partition("; ")[0] for fault in found] == [
        "Pulumi.test.yaml:4: queues.cohorts[a]: unknown key b",
        "Pulumi.test.yaml:5: queues.cohorts[c]: unknown key d",
    ]


def test_an_empty_text_is_no_name_of_an_image(tmp_path: Path) -> None:
    """It is refused at its place, and does not count as a missing name."""
    (fault,) = runs_of(tmp_path, '    - {name: train, namespace: n, image: {name: ""}}\n')
    assert fault == (
        "Pulumi.test.yaml:4: workloads.runs[train].image.name: must have at least 1 character "
        '(value ""); set it, or leave the key out'
    )
