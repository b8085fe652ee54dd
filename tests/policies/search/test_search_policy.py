"""`search:run:ID` in play, evaluation and training: who can be searched with, what it tells, and what is refused."""

from itertools import count

import pytest

import mosaic
from mosaic.core.errors import InputError
from mosaic.core.reference import without_search
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import Explains
from mosaic.policies.registry import is_reproducible, load_policy, parse_policy
from mosaic.policies.search import controller
from mosaic.policies.search.controller import CHUNK, SearchPolicyController
from tests.in_process import trained_here
from tests.policies.search.tree_search_cases import TICTACTOE, network_of

SMALL = {"hidden": [8], "n_steps": 16, "batch_size": 64, "n_epochs": 1}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run(home):
    training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 256, "params": SMALL}
    return trained_here(home, {"environment": {"env_id": TICTACTOE}, "training": training, "run_id": "small"})


@pytest.fixture(autouse=True)
def _home(home, run, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(home))


def test_search_never_loses_tictactoe_against_minimax():
    env = make_env(TICTACTOE)
    for seed in range(3):
        searcher = SearchPolicyController(env.spec, network_of(TICTACTOE, seed, noise=0.3), 4000)
        for mine in env.possible_agents:
            other = load_policy("minimax", env.spec, seed=seed)
            for player in (searcher, other):
                player.begin(env.possible_agents, seed)
            turn = env.reset(seed=seed)
            while turn.observations:
                (mover,) = turn.observations
                turn = env.step((searcher if mover == mine else other).act(turn))
            assert turn.rewards[mine] >= 0
    env.close()


def test_visits_and_value_are_told():
    env = make_env(TICTACTOE)
    with mosaic.load_policy("search:run:small,simulations=50", TICTACTOE) as policy:
        assert isinstance(policy.controller, Explains)
        turn = env.reset(seed=0)
        policy.reset()
        (told,) = policy.explain(turn).values()
        assert told.visits.sum() == 50
        assert told.probabilities.sum() == pytest.approx(1)
        assert told.probabilities.argmax() == told.visits.argmax() == policy.act(turn)["player_1"]
        assert -1 <= told.value <= 1
        assert not told.proven
        for cell in (0, 3, 1, 4):  # X wins with cell 2
            turn = env.step({next(iter(turn.observations)): cell})
        (told,) = policy.explain(turn).values()
        assert policy.act(turn) == {"player_1": 2}
        assert (told.proven, told.value, told.probabilities[2]) == (True, 1.0, 1.0)
    env.close()


def test_evaluation_repeats():
    mapping = {"player_1": "search:run:small,simulations=20", "player_2": "minimax"}
    first, second = (mosaic.evaluate(TICTACTOE, mapping, episodes=3, seed=4) for _ in range(2))
    assert [each.returns for each in first.episode_results] == [each.returns for each in second.episode_results]
    assert first.reproducible


def test_search_is_an_opponent_in_training(home):
    training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 64, "params": SMALL}
    agents = {"player_1": "main", "player_2": "search:run:small,simulations=4"}
    asked = {"environment": {"env_id": TICTACTOE}, "training": training, "agents": agents, "run_id": "against"}
    assert trained_here(home, asked).state.name == "FINISHED"


def test_search_plays_in_a_tournament():
    searcher = "search:run:small,simulations=50"
    found = mosaic.tournament(TICTACTOE, ["random", searcher], games=4)
    assert len(found.results) == 8
    assert next(iter(found.ratings())) == searcher


def test_what_a_move_needs_is_compiled_when_the_policy_is_loaded(monkeypatch):
    called = set()
    for name in ("plant", "simulate", "choose_edge", "root_value"):
        function = getattr(controller, name)
        monkeypatch.setattr(controller, name, lambda *words, n=name, f=function: (called.add(n), f(*words))[1])
    env = make_env(TICTACTOE)
    load_policy("search:run:small", env.spec).close()
    env.close()
    assert called == {"plant", "simulate", "choose_edge", "root_value"}


def test_time_instead_of_simulations():
    assert is_reproducible("search:run:small")
    assert not is_reproducible("search:run:small,time_ms=1")
    env = make_env(TICTACTOE)
    policy = load_policy("search:run:small,time_ms=1", env.spec)
    assert policy.explain(env.reset(seed=0))["player_1"].visits.sum() >= CHUNK
    env.close()


@pytest.mark.parametrize(("time_ms", "chunks"), [(1, 1), (1000, 1), (2000, 2), (5000, 5)])
def test_a_search_by_time_ends_when_the_time_is_over_but_not_before_a_chunk(time_ms, chunks):
    """By this clock a second passes from look to look."""
    env = make_env(TICTACTOE)
    looks = count()
    network = network_of(TICTACTOE, seed=0)
    searcher = SearchPolicyController(env.spec, network, None, time_ms, clock=lambda: next(looks))
    assert searcher.explain(env.reset(seed=0))["player_1"].visits.sum() == chunks * CHUNK
    env.close()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("search:run:small,simulations=0", "simulations"),
        ("search:run:small,simulations=9,time_ms=9", "not both"),
        ("search:minimax", "search works with the policy of a run"),
        ("search:process:rm", "search works with the policy of a run"),
        ("search:run:small,sims=9", "there is no option 'sims'"),
    ],
)
def test_references_that_are_refused(reference, said):
    with pytest.raises(InputError, match=said):
        parse_policy(reference)


def test_the_policy_in_a_reference():
    assert without_search("search:run:x@best/red,simulations=3") == "run:x@best/red"
    assert without_search("run:x,sample=true") == "run:x,sample=true"


def test_what_cannot_be_searched(home):
    for env_id, why in (("classic/rps_v2", "move simultaneously"), ("gym/CartPole-v1", "not a game of two opponents")):
        env = make_env(env_id)
        with pytest.raises(InputError, match=f"cannot be searched: it.* {why}"):
            load_policy("search:run:small", env.spec)
        env.close()
    training = {"worker": "native", "algorithm": "dqn", "total_timesteps": 64, "params": {"hidden": [8]}}
    shared = {"policy_configuration": "parameter_sharing", "run_id": "values"}
    trained_here(home, {"environment": {"env_id": TICTACTOE}, "training": training, **shared})
    env = make_env(TICTACTOE)
    with pytest.raises(InputError, match="trained to value actions"):
        load_policy("search:run:values", env.spec)
    env.close()
