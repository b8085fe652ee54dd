"""Sound learners pass every probe; a learner that is broken on purpose fails the one that looks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.envs.vector.in_process import PythonVector
from mosaic.learners import probes
from mosaic.learners.actor_critic import build as actor_critic_assembly
from mosaic.learners.actor_critic.algorithm import ActorCriticLearner
from mosaic.learners.dqn import build as dqn_assembly
from mosaic.learners.dqn.algorithm import DqnLearner
from mosaic.learners.engines.fused import FusedEngine
from mosaic.learners.probes import PROBES, ProbeAnswer, probes_of, run_probe, run_probes
from mosaic.learners.rollout.compiled import CompiledRollouts
from mosaic.learners.rollout.python import PythonRollouts

BY_NAME = {probe.name: probe for probe in PROBES}


def fails(*names, algorithm="ppo"):
    return [name for name in names if not run_probe(BY_NAME[name], algorithm).ok]


@pytest.mark.parametrize("name", BY_NAME)
def test_ppo_is_sound(name):
    outcome = run_probe(BY_NAME[name])
    assert outcome.ok, outcome.got


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "count"),
    [("a2c", 11), pytest.param("dqn", 11, marks=pytest.mark.chosen), ("sac", 8), ("td3", 8)],
)
def test_so_are_the_others(algorithm, count):
    outcomes = list(run_probes(algorithm))
    assert len(outcomes) == count
    assert [(outcome.probe.name, outcome.got) for outcome in outcomes if not outcome.ok] == []


@pytest.mark.slow
def test_so_is_the_torch_engine():
    outcomes = list(run_probes("ppo", engine="torch"))
    assert [(outcome.probe.name, outcome.got) for outcome in outcomes if not outcome.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("algorithm", probes.ALGORITHMS)
def test_soundness_is_no_luck_of_the_seed(algorithm, seed):
    outcomes = list(run_probes(algorithm, seed=seed))
    assert [(outcome.probe.name, outcome.got) for outcome in outcomes if not outcome.ok] == []


def break_discount(monkeypatch, worker):
    make = worker.__init__

    def far_sighted(self, vector, plan, policies, learning, *rest):
        make(self, vector, plan, policies, tuple(replace(each, gamma=0.99) for each in learning), *rest)

    monkeypatch.setattr(worker, "__init__", far_sighted)


def test_a_wrong_discount(monkeypatch):
    break_discount(monkeypatch, PythonRollouts)
    assert fails("one_value", "two_values", "two_steps", "choice") == ["two_steps"]


def test_a_wrong_discount_in_compiled_envs(monkeypatch):
    break_discount(monkeypatch, CompiledRollouts)
    assert fails("two_steps", "compiled_steps") == ["compiled_steps"]


def test_a_wrong_discount_of_dqn(monkeypatch):
    def far_sighted(vector, plan, architecture, options, *rest):
        return DqnLearner(vector, plan, architecture, options.model_copy(update={"gamma": 0.99}), *rest)

    monkeypatch.setattr(dqn_assembly, "DqnLearner", far_sighted)
    assert fails("one_value", "two_steps", "choice", algorithm="dqn") == ["two_steps"]


@pytest.mark.slow
def test_a_wrong_discount_of_sac(monkeypatch):
    def far_sighted(vector, plan, architecture, options, *rest):
        return ActorCriticLearner(vector, plan, architecture, options.model_copy(update={"gamma": 0.99}), *rest)

    monkeypatch.setattr(actor_critic_assembly, "ActorCriticLearner", far_sighted)
    tried = [probe for probe in probes_of("sac") if probe.name in ("one_value", "two_steps", "choice")]
    assert [probe.name for probe in tried if not run_probe(probe, "sac").ok] == ["two_steps"]


def test_a_truncated_episode_that_is_worth_nothing_more(monkeypatch):
    monkeypatch.setattr(PythonRollouts, "_bootstrap", lambda self, time, played_by: None)
    assert fails("one_value", "two_steps", "cut_off") == ["cut_off"]


def test_an_end_that_is_taken_for_a_truncation(monkeypatch):
    step = PythonVector.step

    def never_ends(self, act):
        step(self, act)
        self.trunc[self.term > 0] = 1
        self.term[:] = 0

    monkeypatch.setattr(PythonVector, "step", never_ends)
    assert "cut_off" in fails("cut_off", "choice")


def test_rewards_that_go_to_the_wrong_agent(monkeypatch):
    step = PythonVector.step

    def swapped(self, act):
        step(self, act)
        agents = len(self.shape.agents)
        self.rew[:] = self.rew.reshape(-1, agents)[:, ::-1].ravel()

    monkeypatch.setattr(PythonVector, "step", swapped)
    assert fails("one_value", "choice", "match", "pair") == ["pair"]


def test_rewards_that_do_not_reach_whoever_waits(monkeypatch):
    step = PythonVector.step

    def kept_back(self, act):
        moved = self.who.copy()
        step(self, act)
        if self.shape.turn_based:
            waited = np.ones((self.shape.envs, len(self.shape.agents)), bool)
            waited[np.arange(self.shape.envs), moved] = False
            self.rew[waited.ravel()] = 0

    monkeypatch.setattr(PythonVector, "step", kept_back)
    assert fails("choice", "pair", "duel") == ["duel"]


def test_masks_that_are_not_looked_at(monkeypatch):
    act = FusedEngine.act

    def careless(self, obs, critic_obs, mask, *rest):
        act(self, obs, critic_obs, mask[:0], *rest)

    monkeypatch.setattr(FusedEngine, "act", careless)
    assert fails("choice", "forbidden", "pair") == ["forbidden"]


def broken_batch(monkeypatch, **changes):
    learn = FusedEngine.learn

    def changed(self, batch, *rest):
        return learn(
            self, batch._replace(**{name: change(getattr(batch, name)) for name, change in changes.items()}), *rest
        )

    monkeypatch.setattr(FusedEngine, "learn", changed)


def test_an_advantage_with_the_wrong_sign(monkeypatch):
    broken_batch(monkeypatch, adv=np.negative)
    assert fails("one_value", "two_values", "two_steps", "cut_off", "choice") == ["choice"]


def test_observations_of_other_rows(monkeypatch):
    broken_batch(monkeypatch, obs=lambda obs: np.roll(obs, 1, axis=0))
    assert fails("one_value", "two_values", "choice", "match") == ["two_values", "match"]


def test_values_that_are_learned_from_nothing(monkeypatch):
    broken_batch(monkeypatch, ret=np.zeros_like)
    assert fails("one_value") == ["one_value"]


def test_numbers_that_are_none_do_not_pass(monkeypatch):
    numberless = replace(probes._ALGORITHMS["ppo"], ask=lambda *_: (float("nan"), np.full(2, np.nan, np.float32)))
    monkeypatch.setattr(probes, "_ALGORITHMS", {"ppo": numberless})
    outcome = run_probe(BY_NAME["one_value"])
    assert not outcome.ok
    assert outcome.got == ("V(0) = nan",)


def test_a_learner_that_raises_says_in_which_probe(monkeypatch):
    def explode(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(PythonRollouts, "learn", explode)
    with pytest.raises(ZeroDivisionError) as caught:
        run_probe(BY_NAME["two_steps"])
    assert caught.value.__notes__ == ["This happened in the probe 'two_steps', which tests: discount or bootstrapping."]


def test_what_cannot_be_probed():
    with pytest.raises(UnknownNameError, match=r"no algorithm to probe named 'dqm'. Did you mean 'dqn'\?"):
        next(run_probes("dqm"))
    with pytest.raises(InputError, match=r"dqn has one engine; leave --engine torch out"):
        next(run_probes("dqn", engine="torch"))
    with pytest.raises(InputError, match=r"type: mosaic train mosaic/tictactoe --algo alphazero.* dqn, sac, td3\."):
        next(run_probes("alphazero"))


def test_answers_in_words():
    assert str(ProbeAnswer(3, -0.5, 1)) == "V(3) = -0.50, plays 1"
    assert str(ProbeAnswer(0, 2.0)) == "V(0) = 2.00"
