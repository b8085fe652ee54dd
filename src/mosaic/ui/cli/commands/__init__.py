"""One file per command."""

from mosaic.ui.cli.commands.check import check
from mosaic.ui.cli.commands.demo import demo
from mosaic.ui.cli.commands.doctor import doctor
from mosaic.ui.cli.commands.envs import envs
from mosaic.ui.cli.commands.evaluate import evaluate
from mosaic.ui.cli.commands.play import play
from mosaic.ui.cli.commands.policies import policies
from mosaic.ui.cli.commands.replay import replay
from mosaic.ui.cli.commands.schema import schema
from mosaic.ui.cli.commands.tournament import tournament

__all__ = [
    "check",
    "demo",
    "doctor",
    "envs",
    "evaluate",
    "play",
    "policies",
    "replay",
    "schema",
    "tournament",
]
