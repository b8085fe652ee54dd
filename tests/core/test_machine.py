"""Free memory: of the machine and of the container, and what is refused where it does not suffice."""

from contextlib import closing

import numpy as np
import psutil
import pytest
from gymnasium import spaces

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core import machine
from mosaic.core.errors import InputError
from mosaic.core.machine import check_memory, free_memory, group_memory
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.compiled.mdp import mdp
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.ppo.options import PpoOptions
from mosaic.learners.tabular.engines import base as engine
from mosaic.learners.tabular.hashed import learner as hashed_learner
from mosaic.learners.tabular.hashed import table as hashed
from mosaic.learners.tabular.hashed.learner import HashedLearner
from mosaic.learners.tabular.hashed.table import HashedTable
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training import agent_codes as storage
from mosaic.learners.tabular.training.agent_codes import choose_storage
from mosaic.workers.native.worker import NativeWorker


@pytest.fixture
def free(monkeypatch):
    """Set the figure that every check reads."""

    def fake(count):
        for module in (machine, mdp, engine, hashed, hashed_learner, storage):
            monkeypatch.setattr(module, "free_memory", lambda: count)
        monkeypatch.setattr("mosaic.learners.dqn.checks.free_memory", lambda: count)

    return fake


def test_no_more_is_free_than_the_machine_has():
    assert 0 < free_memory() <= psutil.virtual_memory().total


def group(folder, limit, use, cached, names=("memory.max", "memory.current", "inactive_file")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{use}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cached}\n")


def test_the_limits_of_a_container_count_and_its_cached_files_do_not(tmp_path):
    group(tmp_path / "outer", 10_000, 5000, 1000)
    group(tmp_path / "outer/inner", "max", 3000, 0)
    (tmp_path / "me").write_text("0::/outer/inner\n")
    assert group_memory(tmp_path, tmp_path / "me") == [6000]
    group(tmp_path / "outer/inner", 4000, 4500, 0)
    assert group_memory(tmp_path, tmp_path / "me") == [0, 6000]


def test_older_control_groups_count_too(tmp_path):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    group(tmp_path / "memory/box", 8000, 7000, 500, names)
    (tmp_path / "me").write_text("5:cpu,cpuacct:/\n4:memory:/box\n0::/\n")
    assert group_memory(tmp_path, tmp_path / "me") == [1500]


def test_without_control_groups_the_machine_decides(tmp_path):
    assert group_memory(tmp_path, tmp_path / "missing") == []
    (tmp_path / "me").write_text("0::/elsewhere\n")
    assert group_memory(tmp_path, tmp_path / "me") == []


def test_the_message_says_what_is_needed_what_is_free_and_what_to_do(free):
    free(2 * 10**9)
    with pytest.raises(InputError) as caught:
        check_memory("A rollout takes", 13_500_000_000, "Set n_steps lower.")
    assert str(caught.value) == "A rollout takes 13.5 GB, and 2.0 GB are free on this machine. Set n_steps lower."
    check_memory("A rollout takes", 10**9, "")
    with pytest.raises(InputError, match=r"takes 1\.0 GB, and resources\.max_memory_mb allows 50\.0 MB\. Less"):
        check_memory("It takes", 10**9, "Less.", limit_mb=50)


EYES = EnvSpec(
    EnvFacts(EnvironmentConfig(env_id="toy/Eyes")),
    ("a", "b"),
    dict.fromkeys("ab", spaces.Box(0, 255, (100, 100, 3), np.uint8)),
    dict.fromkeys("ab", spaces.Discrete(2)),
)
ROLLOUT = 128 * 8 * 2 * 30_000  # bytes of pictures


def checked(options, spec=EYES, **more):
    environment = {"env_id": "gym/CartPole-v1", **more.pop("environment", {})}
    config = RunConfig.model_validate({"environment": environment, **more})
    NativeWorker().check(config, options, spec)


def test_a_rollout_that_fits_is_accepted_and_one_that_does_not_is_refused(free):
    ppo = PpoOptions(batch_size=2)
    free(int(1.2 * ROLLOUT))
    checked(ppo)
    for settings in ({"n_steps": 256}, {"normalize_observations": True}, {"batch_size": 2048}):
        with pytest.raises(InputError, match=r"A rollout of \d+ steps of 8 envs takes .*, and 73\.7 MB are free"):
            checked(ppo.model_copy(update=settings))
    with pytest.raises(InputError, match=r"Decrease n_steps, batch_size or environment\.num_envs"):
        checked(ppo, environment={"num_envs": 16})
    with pytest.raises(InputError, match="or leave out --policies shared_value_function, whose critic sees all agents"):
        checked(ppo, policy_configuration="shared_value_function")
    with pytest.raises(InputError, match=r"takes 6\d\.\d MB, and resources\.max_memory_mb allows 50\.0 MB"):
        checked(ppo, resources={"max_memory_mb": 50})


def test_rollouts_of_numbers_are_checked_too(free):
    with closing(make_env(EnvironmentConfig(env_id="gym/CartPole-v1"))) as env:
        free(10**6)
        checked(PpoOptions(), env.spec)
        with pytest.raises(InputError, match=r"A rollout of 100,000 steps of 8 envs takes .* and 1\.0 MB are free"):
            checked(PpoOptions(n_steps=100_000), env.spec)


def test_a_replay_buffer_that_does_not_fit_is_refused(free):
    free(10**8)
    spec = EnvSpec(EYES.facts, ("a",), {"a": EYES.observation_spaces["a"]}, {"a": spaces.Discrete(2)})
    dqn = DqnOptions(buffer_size=1000)
    checked(dqn, spec)
    with pytest.raises(InputError) as caught:
        checked(DqnOptions(buffer_size=10_000), spec)
    assert str(caught.value) == (
        "A buffer of 10,000 decisions takes 0.6 GB, and 0.1 GB are free on this machine. Set buffer_size to 833 or "
        "less: --set training.params.buffer_size=833"
    )
    checked(DqnOptions(buffer_size=10_000), spec, training={"total_timesteps": 1000})


def test_tables_that_do_not_fit_are_refused(free):
    states, actions = space_code(spaces.Discrete(1000)), space_code(spaces.Discrete(4))
    free(20_000)
    assert choose_storage(None, states, actions, "q_learning", TabularOptions()) == "hashed"
    with pytest.raises(InputError, match=r"needs [\d,]+ bytes; 20,000 are free here\. .*table=hashed"):
        choose_storage("dense", states, actions, "q_learning", TabularOptions())
    with pytest.raises(InputError, match=r"A table of 1,000 states × 4 actions needs [\d,]+ bytes; 20,000 are free"):
        TabularLearner(1000, 4)
    with pytest.raises(InputError, match=r"A hashed table of .* needs [\d,]+ bytes; 20,000 are free here"):
        HashedTable(4, 1000)
    with pytest.raises(InputError, match=r"needs [\d,]+ bytes; 20,000 are free here"):
        HashedLearner(4, rows=1000)
    with (
        closing(make_env(EnvironmentConfig(env_id="gym/Taxi-v3"))) as env,
        pytest.raises(InputError, match=r"bytes as arrays, and 10,000 may be used"),
    ):
        compile_mdp(env)
