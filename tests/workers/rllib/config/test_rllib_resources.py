"""What is asked against what there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.sections import ResourcesConfig
from mosaic.core.errors import InputError
from mosaic.workers.rllib.config.options import ImpalaOptions, RllibPpoOptions
from mosaic.workers.rllib.config.resources import (
    Asked,
    AvailableResources,
    Need,
    Node,
    asked_for,
    check_said_once,
    packs,
    place,
    this_machine,
)

USUAL = Asked(2, 1, 0.0, None, None, 0.0, 0, apart=False, firm=False)


@pytest.mark.parametrize(("cpus", "runners"), [(1, 0), (2, 1), (3, 2), (64, 2)])
def test_what_nobody_asked_for_is_cut_to_the_machine(cpus, runners):
    placed = place(USUAL, AvailableResources(cpus, 0))
    assert (placed.runners, placed.learners) == (runners, 0)
    assert bool(placed.said) == (runners < 2)


def test_what_was_reduced_is_said():
    assert place(USUAL, AvailableResources(1, 0)).said == (
        "Envs are stepped in the main process: this machine has 1 CPU, learning takes 1 CPU.",
    )
    assert place(USUAL, AvailableResources(2, 0)).said == (
        "Envs are stepped by 1 env runner instead of 2: this machine has 2 CPUs, learning takes 1 CPU.",
    )


@pytest.mark.parametrize(("cpus", "learners", "runners"), [(1, 0, 0), (2, 1, 1), (8, 1, 2)])
def test_a_learner_apart_takes_a_cpu_where_there_is_one(cpus, learners, runners):
    placed = place(replace(USUAL, apart=True), AvailableResources(cpus, 0))
    assert (placed.learners, placed.runners) == (learners, runners)


def test_an_explicit_demand_that_cannot_be_met_is_refused():
    with pytest.raises(
        InputError, match=r"8 env runners cannot be placed: this machine has 2 CPUs\. Type --num-env-runners 2"
    ):
        place(replace(USUAL, runners=8, firm=True), AvailableResources(2, 0))
    with pytest.raises(InputError, match=r"2 env runners with 4 CPUs each cannot .* Leave --num-env-runners out"):
        place(replace(USUAL, cpus_per_runner=4, firm=True), AvailableResources(2, 0))
    with pytest.raises(
        InputError, match="3 learners with 3 CPUs in all cannot be placed: the Ray cluster at a:1 has 2"
    ):
        place(replace(USUAL, learners=3), AvailableResources(2, 0, "the Ray cluster at a:1"))


def test_runners_of_a_size_that_somebody_said_are_placed_or_refused():
    assert place(replace(USUAL, cpus_per_runner=2), AvailableResources(2, 0)).runners == 1
    with pytest.raises(InputError, match=r"^An env runner with 4 CPUs cannot be placed: this machine has 2 CPUs\. Set"):
        place(replace(USUAL, cpus_per_runner=4), AvailableResources(2, 0))


def _cluster(*nodes):
    return AvailableResources(
        sum(cpus for cpus, _ in nodes), sum(gpus for _, gpus in nodes), "a:1", tuple(Node(*n) for n in nodes)
    )


def test_a_runner_is_whole_on_one_node():
    """Ray would wait for ever for a node with four CPUs."""
    wide = replace(USUAL, runners=1, cpus_per_runner=4, firm=True)
    assert place(wide, _cluster((2, 0), (4, 0))).runners == 1
    with pytest.raises(InputError, match=r"1 env runner and 0 learners cannot .* 4 CPUs each; free at a:1: 2 CPUs, 2"):
        place(wide, _cluster((2, 0), (2, 0)))


def test_what_nobody_asked_for_is_cut_to_the_nodes():
    placed = place(replace(USUAL, cpus_per_runner=3), _cluster((4, 0), (4, 0), (1, 0)))
    assert (placed.runners, placed.said) == (2, ())
    placed = place(replace(USUAL, cpus_per_runner=3), _cluster((4, 0), (2, 0), (1, 0)))
    assert (placed.runners, placed.said) == (
        1, ("Envs are stepped by 1 env runner: the nodes of a:1 have no room for more.",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        (replace(USUAL, gpus=3, learners=2), 4),  # one and a half for each
        (replace(USUAL, runners=3, gpus_per_runner=0.6, firm=True), 2),  # two do not go on one
    ],
)
def test_gpus_are_given_out_whole_or_as_a_part_of_one(asked, gpus):
    with pytest.raises(InputError, match="of a GPU it gets a part or whole ones"):
        place(asked, AvailableResources(8, gpus))


@given(
    nodes=st.lists(st.builds(Node, st.integers(0, 8), st.sampled_from([0.0, 0.5, 1.0, 2.0])), min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 3), max_size=8),
)
def test_what_was_cut_out_of_the_nodes_goes_back_into_one_of_their_size(nodes, cuts):
    for node in nodes:
        assert packs([Need(0.0, 1)] * node.cpus, [node])
        assert not packs([Need(0.0, 1)] * (node.cpus + 1), [node])
        assert packs([Need(0.5, 0)] * int(node.gpus * 2), [node])
        assert not packs([Need(0.5, 0)] * (int(node.gpus * 2) + 1), [node])
    assert packs([Need(0.0, cut) for cut in cuts], [Node(sum(cuts), 0.0)])
    assert not packs([Need(0.0, 9)], nodes)


def test_an_explicit_demand_that_fits_is_met_to_the_last_cpu():
    assert place(replace(USUAL, firm=True), AvailableResources(2, 0)).runners == 2


@pytest.mark.parametrize(("gpus", "learners", "each"), [(0.5, 1, 0.5), (1, 1, 1.0), (2, 2, 1.0), (1.5, 2, 0.75)])
def test_gpus_are_shared_out_among_learners(gpus, learners, each):
    placed = place(replace(USUAL, gpus=gpus), AvailableResources(8, 4))
    assert (placed.learners, placed.gpus_per_learner, placed.cpus_per_learner) == (learners, each, 0)
    assert placed.gpus == pytest.approx(gpus)


def test_two_learners_may_share_one_gpu():
    assert place(replace(USUAL, gpus=1, learners=2), AvailableResources(8, 1)).gpus_per_learner == 0.5


def test_gpus_that_are_not_there_are_refused():
    with pytest.raises(InputError, match="asks for 2 GPUs and this machine has 0"):
        place(replace(USUAL, gpus=2), AvailableResources(8, 0))
    with pytest.raises(InputError, match="num_learners=0 learns in the main process"):
        place(replace(USUAL, gpus=1, learners=0), AvailableResources(8, 1))
    with pytest.raises(InputError, match=r"asks for 1\.5 GPUs and this machine has 1"):
        place(replace(USUAL, gpus=1, gpus_per_runner=0.25), AvailableResources(8, 1))


@given(
    cpus=st.integers(1, 40),
    runners=st.integers(0, 20),
    each=st.integers(1, 8),
    learners=st.none() | st.integers(0, 6),
    aggregators=st.integers(0, 2),
    apart=st.booleans(),
    firm=st.booleans(),
)
def test_what_is_placed_always_fits(cpus, runners, each, learners, aggregators, apart, firm):
    """Ray would wait for missing CPUs for ever."""
    asked = Asked(runners, each, 0.0, learners, None, 0.0, aggregators, apart, firm)
    try:
        placed = place(asked, AvailableResources(cpus, 0))
    except InputError:
        return
    assert placed.cpus <= cpus
    assert placed.runners == runners if firm else placed.runners <= runners


def _resources(**said):
    return ResourcesConfig.model_validate(said)


def _stored(resources):
    """As a run folder keeps them, with every default written out."""
    asked = parse_run_config({"environment": {"env_id": "gym/CartPole-v1"}, "resources": resources})
    return parse_run_config(dump_run_config(asked)).resources


@pytest.mark.parametrize("said", [{}, {"num_gpus": 1}, {"num_env_runners": "auto"}, {"num_env_runners": None}])
def test_in_a_run_folder_too_nobody_said_how_many(said):
    asked = asked_for(_stored(said), RllibPpoOptions(), apart=False)
    assert (asked.runners, asked.firm) == (2, False)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_explicit_number_is_firm_before_a_run_and_in_it(number):
    """Also where it is the one that Mosaic would pick."""
    for resources in (_resources(num_env_runners=number), _stored({"num_env_runners": number})):
        asked = asked_for(resources, RllibPpoOptions(), apart=False)
        assert (asked.runners, asked.firm) == (number, True)
        assert place(asked, AvailableResources(number, 0)).runners == number
        with pytest.raises(InputError, match="cannot be placed: the Ray cluster at a:1 has"):
            place(asked, AvailableResources(number - 1, 0, "the Ray cluster at a:1"))


def test_overrides_say_as_much_as_a_file():
    config = parse_run_config({"environment": {"env_id": "gym/CartPole-v1"}}, ["resources.num_env_runners=2"])
    assert asked_for(config.resources, RllibPpoOptions(), apart=False).firm


def test_rllibs_own_name_for_runners_goes_first_and_is_firm():
    asked = asked_for(_resources(), RllibPpoOptions(num_env_runners=0), apart=False)
    assert (asked.runners, asked.firm) == (0, True)


def test_two_numbers_of_runners_are_refused():
    check_said_once(_resources(num_env_runners=2), RllibPpoOptions(num_env_runners=2))
    check_said_once(_resources(), RllibPpoOptions(num_env_runners=0))
    with pytest.raises(
        InputError, match=r"num_env_runners=2 and training\.params\.num_env_runners=1 both say .* Leave"
    ):
        check_said_once(_resources(num_env_runners=2), RllibPpoOptions(num_env_runners=1))


def test_aggregators_are_counted():
    asked = asked_for(_resources(), ImpalaOptions(num_aggregator_actors_per_learner=2), apart=True)
    placed = place(asked, AvailableResources(8, 0))
    assert placed.cpus == placed.runners + 1 + 2


def test_the_machine_is_asked_for_gpus_only_where_they_are_wanted(monkeypatch):
    monkeypatch.setattr("mosaic.workers.rllib.config.resources._gpus_here", lambda: pytest.fail("asked"))
    assert this_machine(USUAL).cpus >= 1
