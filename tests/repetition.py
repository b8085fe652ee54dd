"""Repetition of failed tests, after all others and alone: `pytest -p tests.repetition`, part of `make test`."""

from __future__ import annotations

import subprocess
import sys

import pytest

# More failures than this are not chance: they are not repeated.
MOST_REPEATED = 3


@pytest.hookimpl(trylast=True)  # the worker processes have ended: nothing else uses the cores
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Run the few tests that failed once more, in a process of their own; what passes then is named and no failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    reports = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    tests = sorted({report.nodeid for report in reports if isinstance(report, pytest.TestReport)})
    if len(tests) > MOST_REPEATED or any(isinstance(report, pytest.CollectReport) for report in reports):
        return
    reporter.ensure_newline()
    reporter.section(f"repeated alone: {len(tests)} failed", "_")
    reporter.write_line("\n".join(tests), flush=True)
    command = [sys.executable, "-m", "pytest", "-n", "0", *tests]
    if subprocess.run(command, cwd=session.config.rootpath, check=False).returncode == 0:
        reporter.stats["repeated"] = reports
        reporter.stats["failed"], reporter.stats["error"] = [], []
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why tests failed that passed when they were repeated."""
    for report in terminalreporter.stats.get("repeated", ()):
        terminalreporter.section(f"passed when repeated: {report.nodeid}", "_")
        terminalreporter.write_line(report.longreprtext)
