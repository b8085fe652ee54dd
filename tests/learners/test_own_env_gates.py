"""What our own small envs are for: pixels need eyes, recall needs memory, a blind pair a common critic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.base import Assembled
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions
from mosaic.policies.torch_network import EnginePolicyController

SOLVED, EPISODES = 0.95, 200
AGENT = "agent_0"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sums fall out alike on every machine, and threads of a net this small would only wait for one another."""
    import torch

    before = torch.get_num_threads()
    monkeypatch.setattr("mosaic.learners.ppo.algorithm.available_cores", lambda: 1)
    yield
    torch.set_num_threads(before)


def config(env_id: str, seed: int, env_steps: int, policies: str | None = None) -> RunConfig:
    return RunConfig.model_validate(
        {
            "seed": seed,
            "environment": {"env_id": env_id, "num_envs": 16},
            "policy_configuration": policies,
            "training": {"total_timesteps": env_steps},
        }
    )


def learn(asked: RunConfig, enough: float = 2.0, **options: Any) -> Assembled:
    """Trains until the budget is spent, or the last episodes paid enough."""
    assembled = assemble(asked, PpoOptions(n_steps=64, batch_size=256, **options))
    learner, budget = assembled.learner, asked.training.total_timesteps
    assert budget is not None
    while learner.env_steps < budget and (learner.progress().return_mean or 0.0) < enough:
        learner.iterate()
    learner.close()
    return assembled


def share_right(assembled: Assembled, env_id: str) -> float:
    """Of fresh episodes that the likeliest actions play."""
    from mosaic.learners.engines.torch import TorchEngine

    engine = TorchEngine(assembled.architectures[0], 0)
    engine.load(assembled.learner.weights(0))
    env = make_env(env_id)
    rows, actions = row_code(env.observation_spaces[AGENT]), action_code(env.action_spaces[AGENT])
    controller = EnginePolicyController(engine, {AGENT: rows}, {AGENT: actions})
    paid = 0.0
    for seed in range(EPISODES):
        controller.begin((AGENT,), seed)
        turn = env.reset(seed)
        while not turn.over:
            turn = env.step(controller.act(turn))
            paid += turn.rewards[AGENT]
    env.close()
    return paid / EPISODES


def some(seeds: int) -> list[Any]:
    """The first seed in `make test`, all in `make test-all`."""
    return [pytest.param(seed, marks=[pytest.mark.chosen] if seed == 0 else []) for seed in range(seeds)]


@pytest.mark.slow
@pytest.mark.timeout(900)  # 20 s of a core; a crowded machine may need far longer
@pytest.mark.parametrize("seed", range(5))
def test_eyes_solve_catch_pixels(seed: int) -> None:
    asked = config("mosaic/catch_pixels", seed, 60_000)
    assembled = learn(asked, 0.98, n_epochs=4, learning_rate=1e-3, ent_coef=0.01, hidden=(64,))
    assert assembled.engine == "torch"
    assert share_right(assembled, "mosaic/catch_pixels") >= SOLVED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "memory"),
    [
        pytest.param(0, "gru", marks=pytest.mark.chosen),
        *((seed, "gru") for seed in range(1, 5)),
        *((seed, "lstm") for seed in range(5)),
    ],
)
def test_memory_solves_recall(seed: int, memory: Any) -> None:
    asked = config("mosaic/recall", seed, 60_000)
    options: dict[str, Any] = {"n_epochs": 4, "learning_rate": 3e-3, "hidden": (16,)}
    assembled = learn(asked, 0.99, memory=memory, memory_size=16, **options)
    assert share_right(assembled, "mosaic/recall") >= SOLVED


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(5))
def test_a_plain_net_guesses_in_recall(seed: int) -> None:
    assembled = learn(config("mosaic/recall", seed, 60_000), n_epochs=4, learning_rate=3e-3, hidden=(16,))
    assert share_right(assembled, "mosaic/recall") == pytest.approx(0.5, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(8))
def test_a_critic_that_sees_both_solves_the_blind_pair_and_no_other_does(seed: int) -> None:
    reached = {}
    for policies in ("shared_value_function", "parameter_sharing", "independent"):
        asked = config("mosaic/blind_pair", seed, 40_000, policies)
        progress = learn(asked, learning_rate=2e-3, hidden=(32, 32)).learner.progress()
        reached[policies] = progress.return_mean
    assert reached["shared_value_function"] >= SOLVED
    assert max(reached["parameter_sharing"], reached["independent"]) < 0.9
