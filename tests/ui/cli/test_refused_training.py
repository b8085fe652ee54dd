"""What the native worker cannot do is said before there is a run: exit code 2, and no folder is left."""

import subprocess
import sys

import pytest

from tests.extras import skip_if_lacking

CARTPOLE = ("train", "gym/CartPole-v1", "--worker", "native")
LANDER = ("train", "gym/LunarLander-v3", "--worker", "native")
GAME = ("train", "classic/tictactoe_v3", "--worker", "native")
MANY = ("--set", "environment.num_envs=100000")


def params(**settings):
    return [word for name, value in settings.items() for word in ("--set", f"training.params.{name}={value}")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((*CARTPOLE, *params(engine="fused", memory="lstm")), "The fused engine does not support an LSTM."),
        (
            (*CARTPOLE, *params(engine="fused", network="python:a:b", compile="true")),
            "The fused engine does not support a custom network, compile=true. Use engine=torch, or leave",
        ),
        (
            ("train", "mosaic/catch_pixels", "--worker", "native", *params(engine="fused")),
            "The fused engine does not support pictures. Use engine=torch, or leave it out.",
        ),
        (
            (*CARTPOLE, *params(memory="gru", compile="true")),
            "a network with memory cannot be compiled: leave out 'compile'",
        ),
        ((*CARTPOLE, *params(network="python:nothere:net")), "'python:nothere:net': there is no module 'nothere'."),
        (
            (*CARTPOLE, *params(extra_loss="python:math:los")),
            "There is no name in math named 'los'. Did you mean",
        ),
        (
            (*LANDER, *params(threads=2)),
            "threads needs an env with a compiled twin; for Python envs use env_processes=N instead.",
        ),
        (
            (*CARTPOLE, *params(threads=2, engine="torch")),
            "threads needs the fused engine; torch has one learner: use torch_threads=N instead.",
        ),
        (
            (*LANDER, *params(env_processes=99)),
            "16 envs cannot be shared by 99 processes: set env_processes to 16 or less.",
        ),
        (
            (*CARTPOLE, *params(env_processes=2)),
            "env_processes is for envs that Python steps; gym/CartPole-v1 has a compiled twin",
        ),
        (
            (*LANDER, "--algo", "dqn", *params(env_processes=2)),
            "1 envs cannot be shared by 2 processes: set env_processes to 1 or less.",
        ),
        (
            (*CARTPOLE, *params(threads=3), "--set", "environment.num_envs=2"),
            "3 threads cannot share 2 envs. Increase environment.num_envs.",
        ),
        (
            (*GAME, "--policies", "shared_value_function"),
            "shared_value_function needs agents that act at the same time; in a turn-based env no other agent's",
        ),
        (
            ("train", "mpe/simple_tag_v3", "--worker", "native", "--agent", "*=one"),
            "The agents adversary_0 and agent_0 cannot share the policy 'one': their observations or actions differ.",
        ),
        (
            (*GAME, *params(opponents='["minimax","random"]', selfplay_share=1.0)),
            "envs leave none for minimax: every opponent needs its own envs.",
        ),
        ((*GAME, *params(opponents='["stockfish"]')), "'stockfish' plays classic/chess_v6 only, not classic/tictactoe"),
        (
            (*GAME, "--agent", "player_2=stockfish", "--policies", "parameter_sharing"),
            "'stockfish' plays classic/chess",
        ),
        (
            (*CARTPOLE, "--init", "onnx:net.onnx"),
            "net.onnx' is none of run:RUN",
        ),
        (
            (*CARTPOLE, "--init", "run:latest,optimiser=true"),
            "there is no option 'optimiser'. Did you mean 'optimizer'?",
        ),
        ((*CARTPOLE, "--init", "run:latest@newest"), "'@newest' in 'run:latest@newest' is neither @best nor @latest"),
    ],
)
def test_what_cannot_be_had_is_refused_before_there_is_a_run(mosaic, tmp_path, words, text):
    answer = mosaic(*words, "--steps", "512")
    assert answer.code == 2
    if text not in (said := " ".join(answer.err.split())):
        skip_if_lacking(said)
    assert text in said
    assert not list((tmp_path / "home").glob("runs/*"))


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_what_is_refused_is_known_without_machine_code(algorithm):
    """A command that only hands a run over starts quickly."""
    script = (
        "import sys\n"
        "from mosaic.config.loading import parse_run_config\n"
        "from mosaic.workers.resolution import resolve\n"
        f"training = {{'worker': 'native', 'algorithm': '{algorithm}'}}\n"
        "resolve(parse_run_config({'environment': {'env_id': 'gym/CartPole-v1'}, 'training': training}))\n"
        "assert 'mosaic.learners.agent_roles' in sys.modules\n"
        "print(sorted({'numba', 'torch', 'scipy'} & sys.modules.keys()))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
