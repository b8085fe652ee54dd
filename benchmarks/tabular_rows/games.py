"""Tic-tac-toe against random and in self-play, on one core and on several, and through the command."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from ppo_rows.measure import gate
from tabular_rows.peers import ListPeer, NumpyPeer, SelfPlayPeer
from tabular_rows.rows import row, seconds

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.optimal import prove
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runtimes.parallel import ParallelTraining

GAME = find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))
UNBEATABLE = TabularOptions(epsilon=1.0, epsilon_schedule="constant", learning_rate=1.0, discount_factor=1.0)
AGAINST = "tic-tac-toe against random"
AGAINST_RANDOM = TabularOptions(epsilon=0.1, epsilon_schedule="constant")


def against_random(repeats: int) -> None:
    """Measure ours against two peers: the program the figure is stated against, and a faster one tuned by hand."""
    ours: list[float] = []
    peers: dict[type[NumpyPeer | ListPeer], list[float]] = {NumpyPeer: [], ListPeer: []}
    for seed in range(repeats):
        training = TwinTraining(GAME, "q_learning", AGAINST_RANDOM, seed, "random")
        training.advance(10_000)
        ours.append(10_000_000 / seconds(lambda t=training: t.advance(10_000_000)))
        for kind, speeds in peers.items():
            peer = kind(seed)
            speeds.append(40_000 / seconds(lambda p=peer: p.train(40_000)))
            gate(sum(peer.results[-2000:]) / 2000 > 0.4, f"{kind.__name__} learns too")
        training.read_statistics()
        training.advance(200_000)
        gate((training.read_statistics().return_mean or 0) > 0.8, "ours wins against random")
    row(AGAINST, ours, "steps/s", peers[NumpyPeer], 500, name="Python and NumPy")
    row(AGAINST, ours, "steps/s", peers[ListPeer], name="lists and a NumPy table, tuned by hand")


def self_play(repeats: int) -> None:
    from open_spiel.python import rl_environment, rl_tools
    from open_spiel.python.algorithms import tabular_qlearner

    ours, times, peers = [], [], []
    TwinTraining(GAME, "q_learning", UNBEATABLE, 0).advance(20_000)  # loads or compiles the kernels
    alike = {
        "step_size": UNBEATABLE.learning_rate,
        "discount_factor": UNBEATABLE.discount_factor,
        "epsilon_schedule": rl_tools.ConstantSchedule(UNBEATABLE.epsilon),
    }
    for seed in range(repeats):
        training = TwinTraining(GAME, "q_learning", UNBEATABLE, seed)
        spent = 0.0
        while not prove(GAME, training.values).unbeatable:
            spent += seconds(lambda t=training: t.advance(20_000))
            gate(training.env_steps < 5_000_000, "self-play becomes unbeatable")
        times.append(spent)
        ours.append(10_000_000 / seconds(lambda t=training: t.advance(10_000_000)))
        env = rl_environment.Environment("tic_tac_toe")
        agents = [tabular_qlearner.QLearner(player_id=i, num_actions=9, **alike) for i in range(2)]
        peers.append(_open_spiel_speed(env, agents, 4_000))
    row("tic-tac-toe self-play", ours, "moves/s", peers, 1000, name="OpenSpiel")
    row("time to a policy proven unbeatable", [1e3 * each for each in times], "ms", at_most=50)


def _open_spiel_speed(env: Any, agents: list[Any], moves: int) -> float:
    done, start = 0, perf_counter()
    while done < moves:
        step = env.reset()
        while not step.last():
            output = agents[step.observations["current_player"]].step(step)
            step = env.step([output.action])
            done += 1
        for agent in agents:
            agent.step(step)
    return done / (perf_counter() - start)


def cores(repeats: int) -> None:
    single, double = [], []
    for seed in range(repeats):
        one = TwinTraining(GAME, "q_learning", AGAINST_RANDOM, seed, "random")
        two = ParallelTraining(
            lambda n, seed=seed: TwinTraining(GAME, "q_learning", AGAINST_RANDOM, 100 * seed + n, "random"),
            2,
            1_000_000,
        )
        one.advance(10_000)
        two.advance(10_000)
        single.append(10_000_000 / seconds(lambda t=one: t.advance(10_000_000)))
        double.append(20_000_000 / seconds(lambda t=two: t.advance(20_000_000)))
        two.read_statistics()
        two.advance(200_000)
        gate((two.read_statistics().return_mean or 0) > 0.8, "the merged table wins against random")
    row(f"{AGAINST}, two threads", double, "steps/s", single, _on_free_cores(1.6, repeats), name="one thread")


def _on_free_cores(at_least: float, repeats: int) -> float | None:
    """Return no goal in the short form: a second core that other programs use for a second would miss any."""
    return at_least if repeats > 1 else None


def cluster(repeats: int) -> None:
    """Measure two MPI ranks and two Ray actors on this machine, each next to a single learner in the same minute."""
    from mosaic.runtimes.mpi.tabular import MpiTraining
    from mosaic.runtimes.ray.tabular import RayTraining

    def spread(name: str) -> Any:
        where = (GAME, "q_learning", AGAINST_RANDOM, 7, "random")
        if name == "mpi":
            return MpiTraining(*where, ranks=2, merge_every=2_000_000)
        if name == "mpi server":
            return MpiTraining(*where, ranks=2, merge_every=2_000_000, mode="server")
        return RayTraining(*where, actors=2, merge_every=2_000_000)

    for name, at_least in (("mpi", 1.4), ("mpi server", 1.4), ("ray", 1.3)):
        training = spread(name)
        try:
            training.advance(100_000)
            single, double = [], []
            for seed in range(repeats):
                one = TwinTraining(GAME, "q_learning", AGAINST_RANDOM, seed, "random")
                one.advance(10_000)
                double.append(40_000_000 / seconds(lambda t=training: t.advance(40_000_000)))
                single.append(10_000_000 / seconds(lambda t=one: t.advance(10_000_000)))
            training.read_statistics()
            training.advance(400_000)
            gate((training.read_statistics().return_mean or 0) > 0.8, f"the table of {name} wins against random")
            goal = _on_free_cores(at_least, repeats)
            row(f"{AGAINST}, two learners with {name}", double, "steps/s", single, goal, name="one learner")
        finally:
            training.close()


def train_command(repeats: int, steps: int = 30_000_000) -> None:
    """Measure the command `mosaic train`, the library and a Python loop in turn.

    The command: `mosaic train classic/tictactoe_v3 --worker tabular --steps 30000000`.
    """
    from mosaic.runs.trainer import Trainer

    command, library, peers = [], [], []
    for seed in range(repeats):
        training = TwinTraining(GAME, "q_learning", TabularOptions(), seed)
        training.advance(0)
        library.append(steps / seconds(lambda t=training: t.advance(steps)))
        peer = SelfPlayPeer(seed)
        peers.append(20_000 / seconds(lambda p=peer: p.train(20_000)))
        with TemporaryDirectory() as home:
            config = {
                "seed": seed,
                "environment": {"env_id": "classic/tictactoe_v3"},
                "training": {"worker": "tabular", "total_timesteps": steps},
            }
            run = Trainer(Path(home)).submit(config)
            run.wait()
            gate(run.state == "finished", f"the run {run.state}: {run.reason}")
            events = list(run.events())
            ended = next(event for event in events if event["kind"] == "ended")
            last = [event for event in events if event["kind"] == "iteration"][-1]
            gate(last["env_steps"] == steps, "all steps were taken")
            gate(abs(last["episode_reward_mean"]) < 0.2, "self-play comes close to draws")
        command.append(steps / ended["train_s"])
    row("mosaic train tic-tac-toe", command, "moves/s", library, 0.8, name="the library")
    row("mosaic train tic-tac-toe", command, "moves/s", peers, 500, name="Python, tuned by hand")


def public_command(steps: int = 100_000_000) -> None:
    """Measure `Trainer` with the worker: process, metrics and checkpoint included."""
    from mosaic.runs.trainer import Trainer

    with TemporaryDirectory() as home:
        config = {
            "environment": {"env_id": "classic/tictactoe_v3"},
            "training": {"worker": "tabular", "total_timesteps": steps, "params": {"opponent": "random"}},
        }
        run = Trainer(Path(home)).submit(config)
        run.wait()
        gate(run.state == "finished", f"the run {run.state}: {run.reason}")
        events = list(run.events())
        ended = next(event for event in events if event["kind"] == "ended")
        last = [event for event in events if event["kind"] == "iteration"][-1]
        gate(last["episode_reward_mean"] > 0.8, f"it wins against random: {last['episode_reward_mean']:.2f} of 0.8")
        row(f"{AGAINST}, through a run without its start", [last["agent_steps"] / ended["train_s"]], "steps/s")
