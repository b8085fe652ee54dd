"""Files that import an extra which is not installed are skipped; other errors of imports are errors."""

import subprocess
import sys

import pytest

from tests.extras import missing_package


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("import ray.nothing", "needs ray, which is not installed"),
        ("import nothing", "No module named 'nothing'"),
    ],
)
def test_a_file_that_needs_an_extra_is_skipped(tmp_path, line, outcome):
    (tmp_path / "conftest.py").write_text(
        "import sys\nimport tests.extras as extras\nsys.modules['ray'] = None\nextras.find_spec = lambda name: None\n"
        "pytest_pycollect_makemodule = extras.pytest_pycollect_makemodule\n"
    )
    (tmp_path / "test_it.py").write_text(f"{line}\ndef test_one(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path), "--rootdir"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert outcome in done.stdout
    assert ("skipped" in done.stdout) == ("ray" in line)


def test_an_installed_package_is_not_missing():
    assert missing_package(ModuleNotFoundError("No module named 'tests.nothing'", name="tests.nothing")) is None
    assert missing_package(None) is None
