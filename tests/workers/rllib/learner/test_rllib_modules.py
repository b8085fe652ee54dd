"""RLlib's networks with our masks and critics."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from mosaic.core.errors import InputError
from mosaic.workers.rllib.learner.modules import module_class, module_spec
from tests.workers.rllib.rllib_setups import make_setup

BOX, STATE = spaces.Box(-np.inf, np.inf, (5,), np.float32), spaces.Box(-np.inf, np.inf, (9,), np.float32)
MASKS = torch.tensor([[1, 0, 1], [0, 0, 1], [0, 1, 0]], dtype=torch.int8)
DQN = {"dueling": True, "double_q": True, "epsilon": [[0, 1.0], [1, 1.0]], "num_atoms": 1, "v_min": -1, "v_max": 1}


def module_of(algorithm: str, *, state: bool = False, **also: Any) -> Any:
    torch.manual_seed(0)
    parts = {"observation": BOX, "action_mask": spaces.Box(0, 1, (3,), np.int8)} | ({"state": STATE} if state else {})
    config = asdict(DefaultModelConfig(fcnet_hiddens=[8, 8], vf_share_layers=state)) | DQN | also
    spec = RLModuleSpec(
        module_class=module_class(algorithm),
        observation_space=spaces.Dict(parts),
        action_space=spaces.Discrete(3),
        model_config=config,
    )
    return spec.build()


def batch_of(masks: torch.Tensor, *, state: torch.Tensor | None = None) -> dict[str, Any]:
    torch.manual_seed(1)
    seen = {"observation": torch.randn(len(masks), 5), "action_mask": masks}
    return {Columns.OBS: seen | ({} if state is None else {"state": state})}


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "impala", "appo"])
def test_illegal_actions_have_no_chance_while_playing_exploring_and_training(algorithm: str):
    module, batch = module_of(algorithm), batch_of(MASKS)
    for forward in (module.forward_inference, module.forward_exploration, module.forward_train):
        chances = torch.softmax(forward(batch)[Columns.ACTION_DIST_INPUTS], dim=-1)
        assert chances[MASKS == 0].max() == 0
        assert torch.allclose(chances.sum(dim=-1), torch.ones(3))
    assert module.compute_values(batch).shape == (3,)


def test_a_target_network_obeys_the_mask_too():
    module = module_of("appo")
    module.make_target_networks()
    (answer,) = module.forward_target(batch_of(MASKS)).values()
    assert torch.softmax(answer, dim=-1)[MASKS == 0].max() == 0


def test_dqn_neither_plays_nor_explores_what_is_illegal():
    module = module_of("dqn")
    rows = MASKS.repeat(50, 1)
    best = module.forward_inference(batch_of(rows))[Columns.ACTIONS]
    drawn = module.forward_exploration(batch_of(rows), t=1)[Columns.ACTIONS]  # epsilon is 1
    for chosen in (best, drawn):
        assert rows.gather(1, chosen.long().unsqueeze(1)).min() == 1
    assert len(drawn.unique()) == 3


def test_a_central_critic_reads_the_state_and_the_actor_does_not():
    module = module_of("ppo", state=True)
    first, second = (batch_of(MASKS, state=torch.full((3, 9), number)) for number in (0.0, 1.0))
    outputs = [module.forward_train(batch)[Columns.ACTION_DIST_INPUTS] for batch in (first, second)]
    assert torch.equal(*outputs)
    assert not torch.equal(module.compute_values(first), module.compute_values(second))
    changed = {Columns.OBS: {**first[Columns.OBS], "observation": torch.zeros(3, 5)}}
    assert torch.equal(module.compute_values(first), module.compute_values(changed))


def test_a_module_for_playing_has_no_critic():
    module = module_of("ppo", state=True)
    player = RLModuleSpec.from_module(module)
    player.inference_only = True
    kept = set(player.build().state_dict())
    assert kept < set(module.state_dict())
    assert not any(name.startswith(("critic", "vf")) for name in kept)


def test_a_spec_holds_what_the_options_say(tmp_path: Path):
    setup = make_setup(tmp_path, "gym/CartPole-v1", "dqn", params={"epsilon": 0.25, "fcnet_hiddens": [7]})
    config = module_spec(setup, "shared").model_config
    assert isinstance(config, dict)
    assert (config["epsilon"], config["fcnet_hiddens"], config["dueling"]) == (0.25, [7], True)


def test_sac_and_masks_are_refused_with_what_exists(tmp_path: Path):
    setup = make_setup(tmp_path, "classic/tictactoe_v3", "sac")
    with pytest.raises(
        InputError, match=r"sac knows no illegal actions, and classic/tictactoe_v3 has some\. Use --algo ppo"
    ):
        module_spec(setup, "shared")
