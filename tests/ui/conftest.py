"""The command line as a function: words in, exit code and what was printed out."""

from typing import NamedTuple

import pytest

from mosaic.ui.cli import output as screen
from mosaic.ui.cli.main import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def mosaic(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        # rich keeps the streams it was made with; the test's own must be used
        monkeypatch.setattr(screen.out, "_file", None)
        monkeypatch.setattr(screen.err, "_file", None)
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return Answer(ended.value.code, out, err)

    return run
