"""The `mosaic replay` command, which replays a recorded episode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mosaic.ui.cli.options import FpsOption, JsonOption, TrustOption, VideoOption


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
    from contextlib import nullcontext

    from mosaic.core.errors import MosaicError
    from mosaic.core.turn import Turn
    from mosaic.envs.catalog import make_env
    from mosaic.runners.record import environment_of, load_episode
    from mosaic.runners.record import replay as again
    from mosaic.store.archives.trust import require_trust_to_replay
    from mosaic.ui.cli.board import describe_step, draw
    from mosaic.ui.cli.options import give_trust
    from mosaic.ui.cli.output import out, print_json
    from mosaic.ui.cli.recording import camera_for

    give_trust(trust)
    record = load_episode(episode)
    environment = environment_of(record)
    require_trust_to_replay(episode, environment)
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
        draw(env)
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
                "episode": str(episode),
                "env": env.spec.env_id,
                "seed": record.seed,
                "env_steps": record.env_steps,
                "returns": record.returns,
                "same": difference is None,
                "differs_at": difference.step if difference else None,
                "why": difference.what if difference else None,
                "video": str(video) if video else None,
            }
        )
    if difference:
        raise MosaicError(f"The replay differs from the record at step {difference.step}: {difference.what}.")
    if not json:
        out.print(f"{record.env_steps} env steps replayed, bit for bit the same. Returns: {record.returns}")
        if video:
            out.print(f"The video is in {video}", soft_wrap=True)
