"""Policies given to `mosaic.evaluate` as objects: errors call them as the results do, not by a temporary file."""

import pytest

import mosaic
from mosaic.core.errors import MosaicError


def one(x):
    return 0


def far(observation, mask):
    return 99


class Silent:
    def __init__(self, spec, agent, seed):
        pass

    def begin(self, agents, seed):
        pass

    def act(self, turn):
        raise KeyError("x")

    def close(self):
        pass


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (one, "'one' takes 1 arguments. A policy is a function"),
        (far, "Step 0: policy 'far' played 99, outside 0..1, for agent 'agent_0'."),
        (Silent, "Step 0: policy 'Silent' for agent 'agent_0' failed: KeyError: 'x'."),
        (lambda observation, mask: 1 // 0, "policy '<lambda>' for agent 'agent_0' failed: ZeroDivisionError"),
    ],
)
def test_an_error_has_the_name_that_results_show(monkeypatch, policy, text):
    assert text in _error(monkeypatch, policy, num_env_runners=1)


def test_an_error_of_another_process_has_it_too(monkeypatch):
    assert "policy 'Silent' for agent 'agent_0' failed" in _error(monkeypatch, Silent, num_env_runners=2)


def _error(monkeypatch, policy, num_env_runners: int) -> str:
    monkeypatch.setattr(policy, "__module__", "__main__")  # as in a script: stored in a file for the evaluation
    with pytest.raises(MosaicError) as caught:
        mosaic.evaluate("gym/CartPole-v1", {"*": policy}, episodes=2, num_env_runners=num_env_runners)
    assert "mosaic-policies-" not in str(caught.value)
    return str(caught.value)
