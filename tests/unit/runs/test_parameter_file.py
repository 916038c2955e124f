"""The ConfigMap with a sweep's parameter file."""

import json

import pytest

from tests.unit.make import make_expansion, make_space, make_sweep
from tests.unit.sweeps.planned_sweeps import make_indexed
from trainstack.runs.errors import WorkloadError
from trainstack.runs.parameter_file import (
    MAX_CONFIG_MAP_BYTES,
    TooManySetsError,
    batch_data,
    check_size,
    jobs_data,
    parameter_config_map,
    parameter_file_name,
    withdraw_trials,
)
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.hyperparams import format_sets


def test_the_file_of_a_batch_has_the_trials_by_index() -> None:
    """An entry has run id, number, set, and the set's arguments and variables, but not the whole program."""
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
    """The withdrawn trials are not part of the name, because the pods of a Job mount the file by its first name."""
    data = {"hyperparams.yml": "a", "trials.json": "b"}
    name = parameter_file_name("search", data)
    assert parameter_config_map(name, "search", "research", "dev", data) == {
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
    assert parameter_file_name("search", {**data, "trials.json": "c"}) != name
    changed = withdraw_trials(data, ["x", "a"], ["x"])
    assert changed == {**data, "withdrawn.json": '["a","x"]', "stopped.json": '["x"]'}
    assert parameter_file_name("search", changed) == name
    assert withdraw_trials(changed, [], []) == data


def test_more_sets_than_a_config_map_holds_are_refused_with_the_count_that_fits() -> None:
    """The count is exact: one more set does not fit."""
    sets: list[dict[str, Value]] = [{"batch_size": number, "note": "x" * 8000} for number in range(150)]
    space = make_space()
    sweep = make_sweep(space=space, expansion=make_expansion(*sets), sets_text=format_sets("search", space, ()))
    assert sweep.expansion is not None
    complete = sweep.model_copy(update={"sets_text": format_sets("search", space, sweep.expansion.sets)})
    with pytest.raises(WorkloadError) as error:
        jobs_data(complete)
    size, fit = len(complete.sets_text.encode()), int(str(error.value).rpartition("(")[2].split(" ")[0])
    assert f"search: its 150 sets need {size} bytes, but a ConfigMap holds {MAX_CONFIG_MAP_BYTES}" in str(error.value)
    assert len(format_sets("search", space, sweep.expansion.sets[:fit]).encode()) <= MAX_CONFIG_MAP_BYTES
    assert len(format_sets("search", space, sweep.expansion.sets[: fit + 1]).encode()) > MAX_CONFIG_MAP_BYTES


def test_both_files_of_a_batch_count() -> None:
    """A thousand small sets fit easily."""
    sets: list[dict[str, Value]] = [{"batch_size": number} for number in range(1000)]
    few = make_indexed(expansion=make_expansion(*sets[:50]), sets_text="x" * (MAX_CONFIG_MAP_BYTES - 100))
    with pytest.raises(WorkloadError, match=r"need \d+ bytes, but a ConfigMap holds 1048576 \(\d+ sets\)"):
        few.batch_file([*few.trials])
    planned = make_indexed(expansion=make_expansion(*sets))
    small = planned.sweep.model_copy(update={"sets_text": ""})
    pairs = list(planned.trials.items())
    assert len(batch_data(small, pairs)["trials.json"]) < MAX_CONFIG_MAP_BYTES / 5


def test_all_sets_but_only_the_new_trials_count_for_a_later_batch() -> None:
    """Each batch has the complete file of sets, so the error has the number of the sweep's sets that fit."""
    space = make_space()
    sets: list[dict[str, Value]] = [{"batch_size": number, "note": "x" * 4000} for number in range(300)]
    expansion = make_expansion(*sets)
    planned = make_indexed(expansion=expansion, sets_text=format_sets("search", space, expansion.sets))
    new = [*planned.trials][290:]
    with pytest.raises(WorkloadError) as error:
        planned.batch_file(new)
    fit = int(str(error.value).rpartition("(")[2].split(" ")[0])
    assert 200 < fit < 290

    def needed(count: int) -> int:
        """Return the size of a batch with this many sets; none of the sets that fit is new."""
        return len(format_sets("search", space, expansion.sets[:count]).encode()) + len(
            '{"objective":null,"trials":[]}'
        )

    assert needed(fit) <= MAX_CONFIG_MAP_BYTES < needed(fit + 1)


def test_a_batch_has_room_for_the_lists_of_withdrawn_trials() -> None:
    """The file never exceeds the limit of a ConfigMap, even if all trials are withdrawn."""
    sets: list[dict[str, Value]] = [{"batch_size": number} for number in range(100)]
    empty = make_indexed(expansion=make_expansion(*sets), sets_text="")
    run_ids = [*empty.trials]
    used = len(empty.batch_file(run_ids)["trials.json"])
    lists = sum(map(len, withdraw_trials({}, run_ids, run_ids).values()))
    room = MAX_CONFIG_MAP_BYTES - used - lists
    full = make_indexed(expansion=make_expansion(*sets), sets_text="x" * room).batch_file(run_ids)
    assert sum(map(len, withdraw_trials(full, run_ids, run_ids).values())) == MAX_CONFIG_MAP_BYTES
    check_size(make_indexed(expansion=make_expansion(*sets), sets_text="x" * room).sweep)
    with pytest.raises(TooManySetsError):
        check_size(make_indexed(expansion=make_expansion(*sets), sets_text="x" * (room + 1)).sweep)
