"""Checkpoints that RLlib wrote without Mosaic play, with the actions of RLlib's own inference."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.connectors.env_to_module import EnvToModulePipeline
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.spaces.space_utils import unsquash_action

from mosaic.core.errors import InputError, TrustError
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.policies.registry import load_policy
from mosaic.store.archives.trust import VARIABLE
from mosaic.ui.cli.main import main
from tests.workers.rllib.checkpoint.foreign_makers import Pair, save_dqn, save_pair, save_ppo

pytestmark = [pytest.mark.slow]
MODULES = "learner_group/learner/rl_module"


@pytest.fixture(scope="module")
def folder(ray, tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    save_ppo(folder / "ppo")
    save_ppo(folder / "filtered", "Pendulum-v1", filtered=True)
    save_pair(folder / "pair")
    save_dqn(folder / "dqn")
    return folder


@pytest.fixture
def trusted(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")


@pytest.fixture(scope="module")
def cartpole():
    return spec_of("gym/CartPole-v1")


def spec_of(env) -> EnvSpec:
    made = make_env(env)
    made.close()
    return made.spec


def turn(agent, observation, mask=None):
    return Turn({agent: observation}, {} if mask is None else {agent: mask}, {}, {}, {}, {}, {})


def decisions(controller, agent, observations):
    controller.begin((agent,), 0)
    return [controller.act(turn(agent, each))[agent] for each in observations]


def own_inference(path, observations):
    """RLlib's documented inference: the module alone, the likeliest action."""
    module = RLModule.from_checkpoint(path)
    answers = [module.forward_inference({"obs": torch.from_numpy(each[np.newaxis])}) for each in observations]
    if "actions" in answers[0]:
        return [int(each["actions"]) for each in answers]
    kind = module.get_inference_action_dist_cls()
    found = [kind.from_logits(each["action_dist_inputs"]).to_deterministic().sample() for each in answers]
    return [each[0].detach().numpy() for each in found]


def seen(space, count=20):
    space.seed(5)
    return [space.sample().astype(np.float32).clip(-3, 3) for _ in range(count)]


@pytest.mark.parametrize("name", ["ppo", "dqn"])
@pytest.mark.parametrize("part", ["", MODULES, f"{MODULES}/default_policy"])
def test_the_whole_checkpoint_and_its_parts_decide_as_rllib_does(folder, trusted, cartpole, name, part):
    path = folder / name / part
    (agent,) = cartpole.possible_agents
    observations = seen(cartpole.observation_spaces[agent])
    found = decisions(load_policy(f"checkpoint:{path}", cartpole), agent, observations)
    assert found == [int(each) for each in own_inference(folder / name / MODULES / "default_policy", observations)]
    assert len(set(found)) == 2


def test_a_module_copied_alone(folder, trusted, cartpole, tmp_path):
    copy = shutil.copytree(folder / "ppo" / MODULES / "default_policy", tmp_path / "alone")
    (agent,) = cartpole.possible_agents
    observations = seen(cartpole.observation_spaces[agent])
    found = decisions(load_policy(f"checkpoint:{copy}", cartpole), agent, observations)
    assert found == [int(each) for each in own_inference(copy, observations)]


WITH = {
    "evaluate": ["gym/CartPole-v1", "--agent", "*=checkpoint:{nan}", "--episodes", "1"],
    "export": ["checkpoint:{nan}", "--env", "gym/CartPole-v1", "--out", "{nan}.onnx", "--trust"],
    "train": ["gym/CartPole-v1", "--worker", "rllib", "--init", "checkpoint:{nan}", "--steps", "100", "--trust"],
}


@pytest.mark.parametrize("command", WITH)
def test_weights_that_are_not_finite_are_refused(folder, trusted, tmp_path, command, monkeypatch, capfd):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    copy = shutil.copytree(folder / "ppo", tmp_path / "nan")
    file = copy / MODULES / "default_policy" / "module_state.pkl"
    state = pickle.loads(file.read_bytes())
    max(state.values(), key=np.size).flat[0] = np.nan
    file.write_bytes(pickle.dumps(state))
    with pytest.raises(SystemExit) as end:
        main([command, *(word.format(nan=copy) for word in WITH[command])])
    assert "are not finite: 1 of" in " ".join(capfd.readouterr().err.split())
    assert end.value.code == 2
    assert not Path(f"{copy}.onnx").exists()


def test_filters_and_bounds_of_training_are_kept(folder, trusted):
    spec = spec_of("gym/Pendulum-v1")
    (agent,) = spec.possible_agents
    observations = seen(spec.observation_spaces[agent])
    controller = load_policy(f"checkpoint:{folder / 'filtered'}", spec)
    found = decisions(controller, agent, observations)
    pipeline = EnvToModulePipeline.from_checkpoint(folder / "filtered" / "env_runner" / "env_to_module_connector")
    pipeline.connectors[0]._update_stats = False
    filtered = []
    for each in observations:
        episode = SingleAgentEpisode()
        episode.add_env_reset(observation=each)
        batch = pipeline(rl_module=None, episodes=[episode], explore=False, batch={}, shared_data={})
        filtered.append(np.asarray(batch["obs"][0], np.float32))
    assert not np.allclose(filtered[0], observations[0])
    raw = own_inference(folder / "filtered" / MODULES / "default_policy", filtered)
    wanted = [unsquash_action(each, spec.action_spaces[agent]) for each in raw]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert decisions(controller, agent, observations)[0] == pytest.approx(found[0])  # playing changed no filter


def test_each_agent_gets_its_module_and_any_can_be_named(folder, trusted):
    pair = Pair()
    spec = cases(pair)
    path = folder / "pair"
    for agent, module in (("scout", "eyes"), ("digger", "hands")):
        observations = seen(pair.observation_spaces[agent])
        raw = own_inference(path / MODULES / module, observations)
        space = pair.action_spaces[agent]
        wanted = [int(each) if module == "eyes" else unsquash_action(each, space) for each in raw]
        for reference in (f"checkpoint:{path}", f"checkpoint:{path},policy={module}",
                          f"checkpoint:{path / MODULES / module}"):  # fmt: skip
            found = decisions(load_policy(reference, spec, (agent,)), agent, observations)
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    both = load_policy(f"checkpoint:{path}", spec)
    both.begin(("scout", "digger"), 0)
    shown = {agent: seen(space, 1)[0] for agent, space in pair.observation_spaces.items()}
    assert both.act(Turn(shown, {}, {}, {}, {}, {}, {})).keys() == {"scout", "digger"}


def cases(pair):
    spec = spec_of("gym/CartPole-v1")
    changed = {
        "possible_agents": tuple(pair.possible_agents),
        "observation_spaces": pair.observation_spaces,
        "action_spaces": pair.action_spaces,
    }
    from dataclasses import replace

    return replace(spec, **changed)


def test_what_does_not_fit_is_refused(folder, trusted, cartpole, tmp_path):
    with pytest.raises(InputError, match=r"cannot play gym/Pendulum-v1 as .*, whose spaces differ: its observation is"):
        load_policy(f"checkpoint:{folder / 'ppo'}", spec_of("gym/Pendulum-v1"))
    with pytest.raises(InputError, match=r"There is no RLModule of '.*' named 'eye'. Did you mean 'eyes'"):
        load_policy(f"checkpoint:{folder / 'pair'},policy=eye", cartpole)
    with pytest.raises(
        InputError, match=r"policy_mapping_fn fails for the agent .* Name one: checkpoint:.*,policy=NAME"
    ):
        load_policy(f"checkpoint:{folder / 'pair'}", cartpole)
    with pytest.raises(InputError, match="gives actions without probabilities: leave sample and temperature out"):
        load_policy(f"checkpoint:{folder / 'dqn'},sample=true", cartpole)
    with pytest.raises(InputError, match="acts by numbers, whose spread has no temperature"):
        load_policy(f"checkpoint:{folder / 'filtered'},temperature=2", spec_of("gym/Pendulum-v1"))


def test_draws_follow_the_seed(folder, trusted, cartpole):
    (agent,) = cartpole.possible_agents
    controller = load_policy(f"checkpoint:{folder / 'ppo'},temperature=1e6", cartpole)
    observations = seen(cartpole.observation_spaces[agent], 40)
    first = decisions(controller, agent, observations)
    assert first == decisions(controller, agent, observations)
    assert 5 < sum(first) < 35


def test_illegal_actions_are_never_chosen(folder, trusted, cartpole):
    (agent,) = cartpole.possible_agents
    for name in ("ppo", "dqn"):
        controller = load_policy(f"checkpoint:{folder / name}", cartpole)
        controller.begin((agent,), 0)
        for legal in (0, 1):
            mask = np.arange(2) == legal
            for each in seen(cartpole.observation_spaces[agent], 5):
                assert controller.act(turn(agent, each, mask))[agent] == legal


def test_nothing_is_loaded_without_trust(folder, cartpole, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(pickle, "load", lambda *_: pytest.fail("unpickled"))
    for part in ("", MODULES, f"{MODULES}/default_policy"):
        with pytest.raises(TrustError, match=r"was not written by Mosaic and holds pickles.* add --trust"):
            load_policy(f"checkpoint:{folder / 'ppo' / part}", cartpole)


def test_code_that_is_not_there_is_named(folder, trusted, cartpole, tmp_path):
    copy = shutil.copytree(folder / "ppo", tmp_path / "copy")
    (copy / MODULES / "default_policy" / "class_and_ctor_args.pkl").write_bytes(b"cmy_models\nMyModule\n.")
    with pytest.raises(InputError, match=r"needs code that is not found: No module named 'my_models'"):
        load_policy(f"checkpoint:{copy}", cartpole)
