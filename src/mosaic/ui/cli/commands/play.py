"""The commands `mosaic play` and `mosaic replay`: one episode on the terminal, played or recorded earlier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import (
    AgentOption,
    DemoOption,
    EnvArgument,
    FpsOption,
    JsonOption,
    MaxStepsOption,
    PlaySeedOption,
    SetOption,
    TrustOption,
    VideoOption,
)

if TYPE_CHECKING:
    from mosaic.core.episode import Episode


def play(
    env: EnvArgument,
    agent: AgentOption = [],  # noqa: B006 - Typer copies it
    seed: PlaySeedOption = None,
    max_steps: MaxStepsOption = None,
    record: Annotated[bool, typer.Option("--record", help="Record the episode, for mosaic replay.")] = False,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="File for the recording (with --record).", show_default="ENV-SEED.episode.json"),
    ] = None,
    demo: DemoOption = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
) -> None:
    """Play one episode in the terminal.

    Prints the board; the policy `human` prompts you for a legal move.
    """
    from contextlib import nullcontext

    from mosaic.config.programs import programs_of_environment
    from mosaic.core.episode import outcomes
    from mosaic.core.seeding import fresh_seed
    from mosaic.core.turn import Turn
    from mosaic.envs.catalog import make_env
    from mosaic.envs.tables.games import has_table
    from mosaic.envs.tables.table import EVERYTHING, sight_at_screen
    from mosaic.policies.mapping import parse_mapping
    from mosaic.policies.registry import add_code_of, mapping_notes
    from mosaic.runners.local import LocalEnvRunner
    from mosaic.runners.record import save_episode
    from mosaic.ui.cli.board import describe_step, draw
    from mosaic.ui.cli.options import environment, give_trust
    from mosaic.ui.cli.output import note, out
    from mosaic.ui.cli.recording import by_pattern, demo_recorder, how_to_watch, watchable

    give_trust(trust)
    seed = fresh_seed() if seed is None else seed
    mapping = parse_mapping(agent)
    add_code_of(mapping)
    made = make_env(environment(env, settings))
    hidden = made.spec.facts.hidden_information  # a picture would show it to everyone, and the seed tell it
    with (
        nullcontext() if hidden else watchable("play", env, by_pattern(agent)) as screen,
        LocalEnvRunner(made, mapping, seed=seed, screen=screen) as runner,
        demo_recorder(demo, runner) as noted,
    ):
        for text in mapping_notes(mapping, runner.env.spec):
            note(text)
        if screen is not None and out.is_terminal:
            note(f"Others can watch: {how_to_watch(screen)}")
        if not hidden:
            note(f"seed {seed}")
        before: Turn | None = None
        for step, turn in enumerate(runner.turns(seed, max_steps=max_steps, digests=True)):
            people = [agent for agent in runner.env.possible_agents if mapping.key_of(agent, 0).policy == "human"]
            hides = hidden and people and not turn.over
            sight = sight_at_screen(people, turn.observations) if hides else EVERYTHING
            if before is not None:
                known = EVERYTHING if has_table(runner.env.spec.env_id) else sight
                out.print(describe_step(runner.env.spec, before, runner.record, step, known))
            draw(runner.env, turn, sight)
            noted(turn)
            before = turn
        episode, facts = runner.record, runner.env.spec.facts
        for name, value in episode.returns.items():
            word = f", {outcomes(episode.returns, facts.win_above)[name]}" if facts.competitive else ""
            out.print(f"{name} ({episode.policies[name]}): return {value:g}{word}")
        if hidden:
            note(f"seed {seed}")
        if record:
            path = out_file or Path(f"{facts.config.id.replace('/', '-').replace(':', '-')}-{seed}.episode.json")
            save_episode(path, episode)
            trusted = " --trust" if programs_of_environment(facts.config) else ""
            out.print(f"recorded: {path}  (mosaic replay {path}{trusted})")


def replay(
    episode: Annotated[Path, typer.Argument(metavar="EPISODE", help="Episode file recorded by play or evaluate.")],
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only whether the replay is the same, without boards.")
    ] = False,
    video: VideoOption = None,
    fps: FpsOption = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Replay a recorded episode and check that it is the same."""
    from mosaic.runners.record import environment_of, load_episode
    from mosaic.store.archives.trust import require_trust_to_replay
    from mosaic.ui.cli.options import give_trust

    give_trust(trust)
    record = load_episode(episode)
    require_trust_to_replay(episode, environment_of(record))
    show_replay(record, str(episode), quiet=quiet, video=video, fps=fps, json=json)


def show_replay(
    record: Episode, source: str, *, quiet: bool, video: Path | None, fps: float | None, json: bool
) -> None:
    """Play a recorded episode again, print or film it, and say whether it is the same."""
    from contextlib import nullcontext

    from mosaic.core.errors import MosaicError
    from mosaic.core.turn import Turn
    from mosaic.envs.catalog import make_env
    from mosaic.runners.record import environment_of, report_to_json
    from mosaic.runners.record import replay as again
    from mosaic.ui.cli.board import describe_step, draw, print_reports
    from mosaic.ui.cli.output import out, print_json
    from mosaic.ui.cli.recording import camera_for

    environment = environment_of(record)
    camera = camera_for(video, fps)
    env = make_env(environment)
    shown = not (quiet or json or video)

    before: list[Turn] = []

    def on_turn(step: int, turn: Turn) -> None:
        if camera is not None:
            policies = {agent: record.policy_of(agent, max(0, step - 1)) for agent in record.policies}
            camera.shoot(env, step, turn, policies)
        if not shown:
            return
        if before:
            out.print(describe_step(env.spec, before.pop(), record, step))
        draw(env, turn)
        print_reports(record, step)  # what was said before the next step
        before.append(turn)

    try:
        with camera or nullcontext():
            difference = again(env, record, on_turn if shown or camera else None)
            if camera is not None:
                camera.cut()
    finally:
        env.close()
    if json:
        print_json(
            {
                "episode": source,
                "env": env.spec.env_id,
                "seed": record.seed,
                "env_steps": record.env_steps,
                "returns": record.returns,
                "same": difference is None,
                "differs_at": difference.step if difference else None,
                "why": difference.what if difference else None,
                "video": str(video) if video else None,
                "reports": [report_to_json(report) for report in record.reports],
            }
        )
    if difference:
        raise MosaicError(f"The replay differs from the record at step {difference.step}: {difference.what}.")
    if not json:
        out.print(f"{record.env_steps} env steps replayed, bit for bit the same. Returns: {record.returns}")
        if video:
            out.print(f"The video is in {video}", soft_wrap=True)
