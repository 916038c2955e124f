"""The ConfigMap with a sweep's parameter file."""

import json

import pytest

from tests.unit.make import make_expansion, make_space, make_sweep
from tests.unit.workloads.sweeps import make_indexed
from trainstack.runs.errors import WorkloadError
from trainstack.runs.parameter_file import (
    LIMIT_BYTES,
    TooManySetsError,
    batch_data,
    check_size,
    file_config_map,
    file_name,
    jobs_data,
    withdrawn,
)
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import text_of


def test_the_file_of_a_batch_tells_by_index_what_each_trial_is() -> None:
    """Run id, number, set, and what the set adds to the program; not the whole of what it runs."""
    planned = make_indexed(space=make_space(env={"SIZE": "${parameters.batch_size}"}), sets_text="- sets\n")
    run_ids = [*planned.trials][2:]
    data = planned.batch_file(run_ids)
    assert {name: text for name, text in data.items() if name != "trials.json"} == {"hyperparams.yml": "- sets\n"}
    assert json.loads(data["trials.json"]) == {
        "objective": None,
        "trials": [
            {
                "run_id": run_id,
                "number": number,
                "id": planned.trials[run_id].set_id,
                "parameters": {"batch_size": size},
                "args": [f"--batch-size={size}"],
                "env": {"SIZE": str(size)},
            }
            for run_id, number, size in zip(run_ids, (3, 4), (128, 512), strict=True)
        ],
    }


def test_a_file_is_named_after_its_content() -> None:
    """Without what is withdrawn from it later: the pods of a Job mount it by that name all the time."""
    data = {"hyperparams.yml": "a", "trials.json": "b"}
    name = file_name("search", data)
    assert file_config_map(name, "search", "research", "dev", data) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "research",
            "labels": {
                "trainstack.dev/sweep": "search",
                "app.kubernetes.io/managed-by": "trainstack",
                "trainstack.dev/stack": "dev",
            },
        },
        "data": data,
    }
    assert name.startswith("sweep-search-")
    assert file_name("search", {**data, "trials.json": "c"}) != name
    out = withdrawn(data, ["x", "a"], ["x"])
    assert out == {**data, "withdrawn.json": '["a","x"]', "stopped.json": '["x"]'}
    assert file_name("search", out) == name
    assert withdrawn(out, [], []) == data


def test_more_sets_than_a_config_map_holds_are_refused_with_the_count_that_fits() -> None:
    """To the byte: so many fit, and one more does not."""
    sets: list[dict[str, Value]] = [{"batch_size": number, "note": "x" * 8000} for number in range(150)]
    space = make_space()
    sweep = make_sweep(space=space, expansion=make_expansion(*sets), sets_text=text_of("search", space, ()))
    assert sweep.expansion is not None
    whole = sweep.model_copy(update={"sets_text": text_of("search", space, sweep.expansion.sets)})
    with pytest.raises(WorkloadError) as caught:
        jobs_data(whole)
    size, fit = len(whole.sets_text.encode()), int(str(caught.value).rpartition("(")[2].split(" ")[0])
    assert f"search: its 150 sets need {size} bytes, but a ConfigMap holds {LIMIT_BYTES}" in str(caught.value)
    assert len(text_of("search", space, sweep.expansion.sets[:fit]).encode()) <= LIMIT_BYTES
    assert len(text_of("search", space, sweep.expansion.sets[: fit + 1]).encode()) > LIMIT_BYTES


def test_of_a_batch_both_files_count() -> None:
    """A thousand small sets are far from too many."""
    sets: list[dict[str, Value]] = [{"batch_size": number} for number in range(1000)]
    few = make_indexed(expansion=make_expansion(*sets[:50]), sets_text="x" * (LIMIT_BYTES - 100))
    with pytest.raises(WorkloadError, match=r"need \d+ bytes, but a ConfigMap holds 1048576 \(\d+ sets\)"):
        few.batch_file([*few.trials])
    planned = make_indexed(expansion=make_expansion(*sets))
    small = planned.sweep.model_copy(update={"sets_text": ""})
    pairs = list(planned.trials.items())
    assert len(batch_data(small, pairs)["trials.json"]) < LIMIT_BYTES / 5


def test_of_a_further_batch_all_sets_count_and_the_new_trials_alone() -> None:
    """The file of sets is whole in each batch, so what fits is told of the sweep's sets, not of the batch's."""
    space = make_space()
    sets: list[dict[str, Value]] = [{"batch_size": number, "note": "x" * 4000} for number in range(300)]
    expansion = make_expansion(*sets)
    planned = make_indexed(expansion=expansion, sets_text=text_of("search", space, expansion.sets))
    new = [*planned.trials][290:]
    with pytest.raises(WorkloadError) as caught:
        planned.batch_file(new)
    fit = int(str(caught.value).rpartition("(")[2].split(" ")[0])
    assert 200 < fit < 290

    def needed(count: int) -> int:
        """What a batch of the new ones among so many sets would need: none is new of as few as fit."""
        return len(text_of("search", space, expansion.sets[:count]).encode()) + len('{"objective":null,"trials":[]}')

    assert needed(fit) <= LIMIT_BYTES < needed(fit + 1)


def test_a_batch_has_room_for_the_lists_of_what_is_withdrawn() -> None:
    """Whatever is taken out of it later, the file stays within what a ConfigMap holds."""
    sets: list[dict[str, Value]] = [{"batch_size": number} for number in range(100)]
    empty = make_indexed(expansion=make_expansion(*sets), sets_text="")
    run_ids = [*empty.trials]
    used = len(empty.batch_file(run_ids)["trials.json"])
    lists = sum(map(len, withdrawn({}, run_ids, run_ids).values()))
    room = LIMIT_BYTES - used - lists
    full = make_indexed(expansion=make_expansion(*sets), sets_text="x" * room).batch_file(run_ids)
    assert sum(map(len, withdrawn(full, run_ids, run_ids).values())) == LIMIT_BYTES
    check_size(make_indexed(expansion=make_expansion(*sets), sets_text="x" * room).sweep)
    with pytest.raises(TooManySetsError):
        check_size(make_indexed(expansion=make_expansion(*sets), sets_text="x" * (room + 1)).sweep)
