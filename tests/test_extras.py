"""Tests that import an extra which is not installed are skipped; other errors of imports are errors."""

import subprocess
import sys

from mosaic.core.errors import MissingExtraError
from tests import extras

PROBES = {
    "test_file": "import ray.nothing\ndef test_one(): pass\n",
    "test_body": "def test_one(): import ray\n",
    "test_other_file": "import nothing\ndef test_one(): pass\n",
    "test_other_body": "def test_one(): import nothing\n",
}
CONFTEST = """\
import sys
import tests.extras as extras
from tests.extras import pytest_pycollect_makemodule, pytest_runtest_call
sys.modules["ray"] = None
extras.find_spec = lambda name: None
"""


def test_what_needs_an_extra_is_skipped_and_other_imports_fail(tmp_path):
    for name, text in {"conftest": CONFTEST, **PROBES}.items():
        (tmp_path / f"{name}.py").write_text(text)
    options = ["-q", "-rsfE", "--continue-on-collection-errors", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.count("needs ray, which is not installed") == 2
    assert "1 failed, 2 skipped, 1 error" in done.stdout
    assert done.stdout.count("No module named 'nothing'") >= 2


def test_what_is_installed_is_not_lacking(monkeypatch):
    assert extras.lacking(ModuleNotFoundError("No module named 'tests.nothing'", name="tests.nothing")) is None
    assert extras.lacking(None) is None
    monkeypatch.setattr(extras, "find_spec", lambda name: name)
    assert extras.lacking(MissingExtraError("it needs torch")) is None
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert extras.lacking(MissingExtraError("it needs torch")) == "it needs torch"
