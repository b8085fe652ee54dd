"""The `mosaic demo` command: train, prove, evaluate and play tic-tac-toe."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mosaic.core.ids import JsonObject
    from mosaic.runs.run import Run
    from mosaic.server.serve import Listening

ENV, PLAIN_ENV = "classic/tictactoe_v3", "mosaic/tictactoe"  # the same game; the second needs no extra
STEPS, GAMES = 1_000_000, 500
_TRAINING = "training by self-play"
LEARN: JsonObject = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}


def demo(
    terminal: Annotated[bool, typer.Option("--terminal", help="Play in the terminal, not in the browser.")] = False,
) -> None:
    """Train tic-tac-toe to perfect play, prove it, play it.

    A table learns by self-play, is proven unbeatable by exhaustive search, and meets minimax and random. Then the board
    opens in the browser.
    """
    from mosaic.ui.cli.output import note, out

    env = ENV if find_spec("pygame") else PLAIN_ENV
    run = _train(env)
    _prove(run)
    _measure(run)
    out.print("Any policy can take any agent's place in any environment, for example:")
    out.print("  mosaic evaluate mpe/simple_spread_v3 --agent '*=random'")
    out.print("  mosaic play classic/chess_v6 --agent player_0=stockfish:skill=5 --agent player_1=random\n")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        note(f"Play against it yourself: mosaic play {env} --agent player_1=human --agent player_2=run:{run.id}")
        note(f"Or in the browser: mosaic serve, then the page /play?run={run.id}")
    elif terminal or not _play_in_the_browser(run.id, env):
        _play_on_the_terminal(run.id, env)


def _play_in_the_browser(run_id: str, env: str) -> bool:
    """Serve the board until Ctrl-C; return False where no server can start."""
    from mosaic.core.errors import InputError
    from mosaic.server.client.address import DEFAULT_PORT
    from mosaic.ui.cli.output import note

    why = ""
    for port in (DEFAULT_PORT, 0):  # the default port may be taken by another server
        try:
            _serve_board(run_id, env, port)
        except ModuleNotFoundError as error:
            why = f"The web app needs '{error.name}': pip install 'mosaic-rl[web]'."
        except InputError as error:
            why = str(error)
        else:
            return True
    note(f"{why} The game is played here instead.")
    return False


def _serve_board(run_id: str, env: str, port: int) -> None:
    from mosaic.server.serve import Frontend, ListenAddress, serve
    from mosaic.ui.health import examine
    from mosaic.ui.web.app import add_pages

    with ExitStack() as end:

        def greet(listening: Listening) -> None:
            _show_board(listening, run_id, env, end)

        serve(ListenAddress(port=port), frontend=Frontend(examine, add_pages, greet, _quiet))


def _show_board(listening: Listening, run_id: str, env: str, end: ExitStack) -> None:
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.server.play.messages import MatchRequest
    from mosaic.ui.cli.output import out
    from mosaic.ui.window import open_browser

    agents = {"player_1": "human", "player_2": f"run:{run_id}"}
    asked = MatchRequest(environment=EnvironmentConfig.model_validate({"env_id": env}), agents=agents)
    match = listening.app.state.matches.open(asked)
    address = f"{listening.link('/play', match=match.id)}#key={match.state.access.owner_key}"
    shown = open_browser(address, end)
    where = "The board is open in your browser" if shown else "Open this in your browser"
    other = "" if shown else " Without a browser on this machine: mosaic demo --terminal"
    out.print(f"Now you: X against what it learned. {where}; Ctrl-C here ends it.{other}", soft_wrap=True)
    out.print(address, soft_wrap=True)


def _quiet(text: str) -> None:
    """Drop the server's messages: only the board's address is printed here."""


def _play_on_the_terminal(run_id: str, env: str) -> None:
    from mosaic.ui.cli.commands.play import play
    from mosaic.ui.cli.output import out

    out.print("Now you: X against what it learned. Free cells show the number to type. Ctrl-C leaves.\n")
    play(env, ["player_1=human", f"player_2=run:{run_id}"], settings=[], record=False, out_file=None)


def _train(env: str) -> Run:
    from mosaic.core.errors import MosaicError
    from mosaic.runs.train import times
    from mosaic.runs.trainer import Trainer
    from mosaic.ui.cli.output import err, out

    config: JsonObject = {
        "environment": {"env_id": env},
        "policy_configuration": "self_play",
        "training": {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": STEPS, "params": LEARN},
        "tags": ["demo"],
    }
    with err.status(_TRAINING) as status:
        run = Trainer().submit(config)
        for event in run.events(follow=True):
            status.update(event["message"] if event["kind"] == "compiling" else _TRAINING)
        run.wait()
    if run.state != "finished":
        raise MosaicError(f"The demo's run {run.id} {run.state}: {run.reason}. Its log: mosaic runs log {run.id}")
    spent = times(run.events(), run.record().queued_at)
    fastest = max(event.get("env_steps_per_s") or 0.0 for event in run.events()) / 1e6
    out.print(
        f"A table learned tic-tac-toe by self-play: {STEPS:,} moves in {spent.train_s:.2f} s, after "
        f"{spent.startup_s:.2f} s of start-up, at up to {fastest:.0f} million moves a second."
    )
    return run


def _prove(run: Run) -> None:
    from safetensors.numpy import load_file

    from mosaic.core.errors import MosaicError
    from mosaic.envs.compiled.mdp.mdp import GameTables
    from mosaic.envs.compiled.registry import find_twin
    from mosaic.learners.tabular.optimal import prove
    from mosaic.learners.tabular.training.twin import FILE
    from mosaic.ui.cli.output import out

    game = find_twin(run.config.environment)
    assert isinstance(game, GameTables)
    proof = prove(game, load_file(run.checkpoints()[-1].path / FILE)["values"])
    if not proof.unbeatable:
        raise MosaicError(f"The policy of {run.id} can still be beaten in {proof.lost} ways.")
    out.print(
        f"Proven by exhaustive search: from either side, in all {proof.positions:,} positions that can come up, it "
        "cannot be beaten.\n"
    )


def _measure(run: Run) -> None:
    from mosaic.evaluation.evaluate import evaluate
    from mosaic.ui.cli.output import print_table, progress

    rows = []
    meetings = [(other, place) for other in ("minimax", "random") for place in (0, 1)]
    with progress("playing", GAMES * len(meetings)) as tick:
        for other, place in meetings:
            agents = ["player_1", "player_2"]
            mapping = {agents[place]: f"run:{run.id}", agents[1 - place]: other}
            result = evaluate(run.config.environment.id, mapping, episodes=GAMES, seed=7, on_episode=tick)
            row = result.agents[agents[place]]
            order = ("first", "second")[place]
            rows.append([other, order, row.wins, row.draws, row.losses, result.distinct_games])
    columns = ["against", "moving", "won", "drawn", "lost", "distinct games"]
    print_table(f"{GAMES * len(meetings):,} games of what it learned", columns, rows, columns[2:])
