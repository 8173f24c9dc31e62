"""Every mutant fails the kit, by the tests that are meant for its fault; and every kit test kills some mutant."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from solus_core.testing import DataStoreContract, HasherContract, MetaStoreContract, PluginContract

Outcomes = dict[str, dict[str, str]]

DATA: Final = {
    "AddsUp": "adding_again_does_not_add_up batch_does_not_shorten against_the_model",
    "Overwrites": "shorter_never_shortens adds_that_race_keep_the_longest against_the_model",
    "KeepsFirst": "longer_extends another_entity_extends an_expired_entity_can_be_added_again against_the_model",
    "OverwritesInAddIfAbsent": "another_entity_never_shortens",
    "ExtendsPresent": "false_changes_nothing single_verbs_agree against_the_model",
    "DropsSecondPosition": "every_position_counts every_position_is_set",
    "DropsSecondRow": "random_answers large_batch_in_row_order",
    "FirstPositionOnly": "every_position_counts overlapping_rows",
    "ChecksThenAdds": "one_winner_of_one_entity one_winner_of_each_of_many one_winner_after_expiry",
    "SinglesNotAtomic": "one_winner_of_single_calls",
    "SinglesLockedApart": "single_against_batch",
    "LocksEachView": "one_winner_over_two_views",
    "LosesUpdates": "adds_that_race_keep_the_longest",
    "Rebuilds": "never_absent_once_added",
    "MakesTablesTwice": "dedupers_are_made_once",
    "ClaimsCluster": "one_winner_over_processes",
    "PlainNumber": "describes_itself",
    "UnorderedAnswers": "large_batch_in_row_order against_the_model",
    "UnorderedAdds": "many_repeats_inside_a_batch large_batch_in_row_order",
    "LastRepeatWins": "repeats_inside_a_batch many_repeats_inside_a_batch",
    "RepeatsWin": "repeats_inside_a_batch repeats_of_a_known_entity against_the_model",
    "RepeatsByBytes": "repeats_inside_a_batch",
    "IgnoresNow": "expiry_is_the_last_moment one_expired_position_is_enough against_the_model",
    "WallClock": "expiry_is_the_last_moment",
    "ExpiresTooEarly": "expiry_is_the_last_moment add_if_absent_has_the_same_last_moment the_longest_ttl",
    "ExpiresTooLate": "expiry_is_the_last_moment add_if_absent_has_the_same_last_moment the_longest_ttl",
    "CapsTtl": "a_ttl_of_years",
    "RoundsToSeconds": "expiry_is_the_last_moment",
    "SwallowsErrors": "closed_store_gives_no_answer",
    "SwallowsAdds": "closed_store_gives_no_answer",
    "CountsExpired": "stats",
    "SamplesAll": "expiries",
    "SamplesExpired": "stats expiries",
    "IgnoresShards": "absent_until_added repeats_inside_a_batch",
    "SharesNames": "names_are_apart names_are_apart_in_batches",
    "FoldsNames": "names_are_apart",
    "SharesClients": "client_ids_are_apart",
    "JoinsKeys": "numbers_that_read_alike client_and_name_do_not_run_together",
    "DropsSigns": "negative_shards_and_positions",
    "NarrowShards": "sizes",
    "XdcByFarm": "xdc_is_shared_by_farms",
    "DcShared": "dc_is_apart_by_farm",
    "CountsRepeats": "repeated_positions against_the_model",
    "ComparesSequences": "permuted_positions_are_the_same_entity repeated_positions against_the_model",
    "ForgetsDc": "dc_works_like_xdc_within_a_farm",
    "PrivateViews": "views_share_their_state one_winner_over_two_views",
    "LosesOnClose": "opening_again_keeps_the_data closing_one_view_leaves_the_others",
    "KeepsOpen": "closed_store_gives_no_answer",
    "RefusesSecondClose": "close_is_repeatable",
    "SortsInput": "input_is_left_alone",
    "ReadsRawMemory": "any_memory_order",
    "KeepsInput": "input_is_not_kept",
    "NeedsRows": "empty_batch",
    "AnswersLists": "shape_of_answers",
    "DropsLongLived": "reclaiming_keeps_what_lives",
}
META: Final = {
    "CreateOverwrites": "create_never_overwrites create_of_an_inactive_name",
    "CreateRaces": "racing_creates_have_one_winner",
    "CreateAnswersOwn": "create_never_overwrites",
    "CachesNotFound": "not_found_is_not_remembered",
    "CachesRecords": "set_active_is_seen_by_other_views set_active",
    "ForgetsHasher": "every_field_is_kept",
    "ForgetsExpiry": "every_field_is_kept",
    "DropsInactive": "create_of_an_inactive_name set_active opening_again_keeps_the_records",
    "MarksUnknown": "set_active_of_an_unknown_name",
    "ListsInactive": "active_lists_all",
    "CutsNames": "unusual_names",
    "SharesClientsMeta": "client_ids_are_apart",
    "KeepsOpenMeta": "closed_store_gives_no_answer",
    "RaisesWhenUnknown": "unknown_name",
    "CreateAnswersNothing": "create_answers_what_is_stored",
    "SwapsBack": "set_active_twice",
}
HASHERS: Final = {
    "BuiltinHash": "same_in_another_process",
    "Strides": "few_repeats_inside_a_probe false_positives",
    "BatchDiffers": "one_and_many_agree large_batch_in_order",
    "IgnoresTails": "near_identical_keys",
    "UnevenShards": "spread",
    "BeyondTheLimit": "shape_and_range",
    "OddName": "name",
    "NumpyNumbers": "single_probe_is_plain",
    "StripsZeros": "empty_key_and_odd_bytes",
    "NoRowsNoColumns": "empty_batch",
    "Chained": "again_is_the_same",
}
PLUGINS: Final = {
    "ClaimsAll": "foreign_contexts_are_left_alone",
    "OtherVersion": "loads api_version_is_a_literal",
    "ImportsDriver": "discovery_imports_no_driver",
    "MutableConfig": "config_is_a_value",
    "DropsUnknownOptions": "unknown_settings_are_refused",
    "ClosesAll": "borrowed_context_stays_open opening_again_keeps_the_data engines_share_the_store",
    "OneEach": "engines_share_the_store opening_again_keeps_the_data",
    "NotOfThisProcess": "forked_child",
    "OnShortening": "single_verbs",
    "OnUnordered": "batch_verbs",
    "OnRacing": "threads",
    "OnPlainNumber": "required_atomicity",
    "OnSharedClients": "client_ids_are_apart",
    "OnSwallowing": "closed_engine_gives_no_answer",
    "OnForgetting": "registering",
    "OnOneHasher": "hasher_is_recorded",
}
MUTANTS: Final = {**DATA, **META, **HASHERS, **PLUGINS}
CONTRACTS: Final = (
    (DataStoreContract, DATA),
    (MetaStoreContract, META),
    (HasherContract, HASHERS),
    (PluginContract, PLUGINS),
)


def names_of(contract: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(contract, inspect.isfunction) if name.startswith("test_")}


def killers_of(mutant: str) -> list[str]:
    return [f"test_{name}" for name in MUTANTS[mutant].split()]


def run_mutants(place: Path, wanted: dict[str, list[str]]) -> Outcomes:
    (place / "wanted.json").write_text(json.dumps(wanted))
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("kit_runner.py"), place / "out.json", place / "wanted.json"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    found: Outcomes = json.loads((place / "out.json").read_text())
    return found


RACES: Final = {
    mutant: killers_of(mutant)
    for mutant in (
        *("ChecksThenAdds", "SinglesNotAtomic", "SinglesLockedApart", "LocksEachView", "LosesUpdates", "Rebuilds"),
        *("MakesTablesTwice", "ClaimsCluster", "PrivateViews", "CreateRaces", "OnRacing"),
    )
}
"""What only a race shows."""

TRIES: Final = 5


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """One run of all mutants, each through the tests meant for it, and of the right plugin through all."""
    place = tmp_path_factory.mktemp("mutants")
    wanted = {mutant: killers_of(mutant) for mutant in MUTANTS}
    wanted["Plugin"] = sorted(names_of(PluginContract))
    found = run_mutants(place, wanted)
    # A race that is lost by chance on a busy machine gets a few more chances; one that can't be lost passes them all.
    for _ in range(TRIES):
        alive = {
            mutant: [test for test in tests if found[mutant].get(test) == "passed"] for mutant, tests in RACES.items()
        }
        alive = {mutant: tests for mutant, tests in alive.items() if tests}
        if not alive:
            break
        for mutant, again in run_mutants(place, alive).items():
            found[mutant].update(again)
    return found


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_killed(outcomes: Outcomes, mutant: str) -> None:
    found = outcomes[mutant]
    assert list(found) == [test for test in found if test in killers_of(mutant)]
    alive = {test: found.get(test, "not run") for test in killers_of(mutant)}
    assert all(outcome.startswith("failed") for outcome in alive.values()), alive


def test_right_plugin_passes(outcomes: Outcomes) -> None:
    # It names no drivers, so that is the one test with nothing to say.
    expected = dict.fromkeys(names_of(PluginContract), "passed") | {"test_discovery_imports_no_driver": "skipped"}
    assert outcomes["Plugin"] == expected


@pytest.mark.parametrize(("contract", "mutants"), CONTRACTS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_kit_test_can_fail(contract: type, mutants: dict[str, str]) -> None:
    killing = {test for mutant in mutants for test in killers_of(mutant)}
    assert names_of(contract) == killing
