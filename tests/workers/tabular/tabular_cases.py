"""Settings and finished runs for tests of the tabular worker."""

from mosaic.runs.trainer import Trainer
from tests.in_process import trained_here


def finished(home, config):
    """Train here, unless it starts Ray, which a process has only one of."""
    run = Trainer(home).submit(config) if config.resources.runtime == "ray" else trained_here(home, config)
    assert run.wait(90) == "finished", run.log()
    return run
