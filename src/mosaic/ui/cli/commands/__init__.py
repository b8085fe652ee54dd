"""Commands, one module each."""

from mosaic.ui.cli.commands.check import check
from mosaic.ui.cli.commands.demo import demo
from mosaic.ui.cli.commands.doctor import doctor
from mosaic.ui.cli.commands.envs import envs
from mosaic.ui.cli.commands.evaluate import evaluate
from mosaic.ui.cli.commands.play import play
from mosaic.ui.cli.commands.policies import policies
from mosaic.ui.cli.commands.probe import probe
from mosaic.ui.cli.commands.replay import replay
from mosaic.ui.cli.commands.schema import schema
from mosaic.ui.cli.commands.serve import serve
from mosaic.ui.cli.commands.tournament import tournament
from mosaic.ui.cli.commands.train import train
from mosaic.ui.cli.commands.tune import tune
from mosaic.ui.cli.commands.watch import watch
from mosaic.ui.cli.commands.workers import workers

__all__ = [
    "check",
    "demo",
    "doctor",
    "envs",
    "evaluate",
    "play",
    "policies",
    "probe",
    "replay",
    "schema",
    "serve",
    "tournament",
    "train",
    "tune",
    "watch",
    "workers",
]
