"""Controllers that decide for several episodes at once decide what each would decide alone."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.encoding import ActionHead, action_code, row_code
from mosaic.models.architecture import Architecture
from mosaic.models.layout import count_weights
from mosaic.policies.controller import ActsTogether
from mosaic.policies.network import NetworkPolicyController
from mosaic.policies.registry import load_policy
from mosaic.policies.serving.actors import ServedPolicy
from mosaic.testing.duel import Duel
from mosaic.testing.worker.opponents import constant_opponents
from tests.policies.together import check_together


def network(*, sample: bool) -> NetworkPolicyController:
    env = make_env("gym/CartPole-v1")
    seen, acts = env.spec.observation_spaces, env.spec.action_spaces
    architecture = Architecture(observation=4, head=ActionHead("categorical", (2,)), hidden=(8, 8))
    flat = np.random.default_rng(0).normal(size=count_weights(architecture)).astype(np.float32)
    rows, actions = {"agent_0": row_code(seen["agent_0"])}, {"agent_0": action_code(acts["agent_0"])}
    return NetworkPolicyController(architecture, flat, rows, actions, sample=sample)


def turns(count: int, masked: bool) -> list[Turn]:
    draw = np.random.default_rng(1)
    masks = [{"agent_0": np.array([number % 3 != 0, True])} if masked else {} for number in range(count)]
    return [Turn({"agent_0": draw.normal(size=4).astype(np.float32)}, mask, {}, {}, {}, {}, {}) for mask in masks]


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_networks(sample, masked):
    check_together(network(sample=sample), ("agent_0",), turns(40, masked))


@pytest.mark.parametrize("temperature", [None, 0.7])
@pytest.mark.parametrize("memory", [None, "gru"])
def test_torch_networks(memory, temperature):
    pytest.importorskip("torch")
    from mosaic.learners.engines.torch import TorchEngine
    from mosaic.policies.torch_network import EnginePolicyController

    spec = make_env("gym/CartPole-v1").spec
    head = ActionHead("categorical", (2,))
    engine = TorchEngine(Architecture(observation=4, head=head, hidden=(8,), memory=memory, memory_size=4), 0)
    rows = {"agent_0": row_code(spec.observation_spaces["agent_0"])}
    actions = {"agent_0": action_code(spec.action_spaces["agent_0"])}
    first = EnginePolicyController(engine, rows, actions, temperature=temperature)
    asked = []
    decide = engine._decide
    engine._decide = lambda obs, *rest: asked.append(len(obs)) or decide(obs, *rest)
    check_together(first, ("agent_0",), turns(40, masked=True))
    assert set(asked) == {1, 4}  # one forward pass for all
    later = first.sibling()
    later.act(turns(1, masked=False)[0])
    assert later._slots["agent_0"] < 8  # of an episode that is over, whose memory is not this one's
    assert first._all_slots._count == 8


def test_onnx_files(tmp_path):
    _, onnx, _ = constant_opponents(tmp_path)
    spec = Duel().spec
    first = load_policy(onnx, spec, ("a", "b"))
    assert isinstance(first, ActsTogether)
    siblings = [first.sibling() for _ in range(3)]
    seen = [Turn(dict.fromkeys(names, step), {}, {}, {}, {}, {}, {}) for step, names in enumerate(("a", "ab", "b"))]
    calls = 0
    compute = first._graph.compute

    def counted(feeds):
        nonlocal calls
        calls += 1
        return compute(feeds)

    first.act_together([(siblings[0], seen[0])])  # the agents' plans are made
    first.act_together([(siblings[1], seen[1])])
    first._graph.compute = counted
    assert first.act_together(list(zip(siblings, seen, strict=True))) == [{"a": 2}, {"a": 2, "b": 2}, {"b": 2}]
    assert calls == 1


def test_a_served_policy_has_decided_alone_and_together_before_a_client_comes(tmp_path):
    served = ServedPolicy(constant_opponents(tmp_path)[1], Duel().spec, ("a", "b"))
    graph, rows = served.actor()._first._graph, []
    compute = graph.compute
    graph.compute = lambda feeds: rows.append(len(next(iter(feeds.values())))) or compute(feeds)
    served.warm_up()
    assert rows == [1, 2]
    ServedPolicy("random", Duel().spec, ("a", "b")).warm_up()  # nothing is compiled for it


def test_a_network_with_memory_explains_what_it_plays():
    from mosaic.learners.engines.fused_memory import FusedMemoryEngine
    from mosaic.policies.torch_network import EnginePolicyController

    spec, head = make_env("gym/CartPole-v1").spec, ActionHead("categorical", (2,))
    engine = FusedMemoryEngine(Architecture(observation=4, head=head, hidden=(8,), memory="gru", memory_size=4), 0)
    rows = {"agent_0": row_code(spec.observation_spaces["agent_0"])}
    actions = {"agent_0": action_code(spec.action_spaces["agent_0"])}
    player, adviser = (EnginePolicyController(engine, rows, actions) for _ in range(2))
    assert player.remembers
    seen = turns(6, masked=True)
    for number, turn in enumerate(seen):
        told = player.explain(turn)["agent_0"]
        assert player.explain(turn)["agent_0"].value == told.value
        assert told.probabilities.argmax() == player.act(turn)["agent_0"]
        if number:
            assert adviser.explain(turn)["agent_0"].value != told.value  # it has not seen the turns before
    adviser.has_value = False
    assert adviser.explain(seen[0])["agent_0"] == (None, None, None, False)
