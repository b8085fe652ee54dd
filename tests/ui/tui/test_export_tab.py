"""Export tab: choices and options, an export from its start to its comparison, cancelling, and the files of one."""

import pytest

from mosaic.ui.tui.widgets.dialogs import TextScreen
from tests.ui.tui.fake_backend import FakeBackend, row
from tests.ui.tui.test_tui_app import app_on, text, until

pytestmark = pytest.mark.asyncio


async def opened(pilot):
    await pilot.press("5")
    await until(pilot, "policy_10", "lake-1")


async def test_an_export_from_its_choices_to_its_comparison():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        shown = text(app)
        assert shown.index("policy_1 ") < shown.index("policy_2 ") < shown.index("policy_10 ")
        await pilot.press("ctrl+end", "space", "up", "enter")  # without policy_10 and policy_2
        await until(pilot, "left out")
        await pilot.press("t")
        await until(pilot, "lake-2 running", "25%", "policy 1 of 3, 'policy_1': comparing")
        assert backend.exports.kept[0].request.policies == ("policy_1",)
        backend.exports.finish()
        await until(pilot, "lake-2 finished", "2.4e-07 of 0.0001", "100.00%", "500 recorded, 500 random", "equal")
        await pilot.press("tab", "enter")
        await until(pilot, "Export lake-2", "/there/policy_1.onnx", "1 of 1 policy_1: comparing")
        assert isinstance(app.screen, TextScreen)


async def test_an_export_is_cancelled_and_deleted():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("s")
        await until(pilot, "Select an active export first")
        await pilot.press("t")
        await until(pilot, "lake-2 running")
        await pilot.press("s")
        await until(pilot, "It was cancelled, and no file was written", "The export lake-2 is stopped")
        assert backend.asked == []  # `s` concerned no run
        await pilot.press("d", "y")
        await until(pilot, "The export lake-2 is deleted", "lake-1 finished")
        assert [each.export_id for each in backend.exports.kept] == ["lake-1"]


async def test_an_option_is_checked_at_its_row_and_keeps_the_export_from_starting():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await pilot.press("down", "down", "down", "enter", *"zero", "enter")  # opset
        await until(pilot, "It should be a whole number")
        await pilot.press("t")
        await until(pilot, "opset: It should be a whole number")
        assert len(backend.exports.kept) == 1
        await pilot.press("enter", *["backspace"] * 4, *"18", "enter", "t")
        await until(pilot, "lake-2 running")
        assert backend.exports.kept[0].request.opset == 18


async def test_a_target_and_its_options_that_do_not_fit_are_refused():
    app = app_on()
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await pilot.press("down", "down", "down", "enter", *"18", "enter", "up", "enter", "end", "enter")
        await until(pilot, "torchscript")
        await until(pilot, "'opset' and 'ir_version' belong to ONNX")


async def test_nothing_is_exported_without_a_policy_or_a_run():
    backend = FakeBackend()
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+end", "space", "up", "space", "up", "space", "t")
        await until(pilot, "Choose at least one policy")
    backend.rows_ = []
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, "nothing is saved yet")
        await pilot.press("t")
        await until(pilot, "Choose a run")


async def test_another_run_and_another_checkpoint():
    backend = FakeBackend()
    backend.rows_.insert(0, row("run-d", "running"))
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await until(pilot, "Export the run", "run-a")
        await pilot.press("end", "enter")
        await until(pilot, "Run" + " " * 11 + "run-a")
        await pilot.press("down", "enter", "end", "enter")
        await until(pilot, "Checkpoint    20,000 env steps")
        await pilot.press("t")
        await until(pilot, "lake-2 running · run-a")


async def test_files_are_written_to_a_folder_and_replace_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = app_on()
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot)
        await pilot.press("w", "enter")
        await until(pilot, "1 file is in")
        assert (tmp_path / "policy_1.onnx").read_bytes() == b"onnx"
        await pilot.press("w", "enter")
        await until(pilot, "policy_1.onnx' exists. Choose another folder")
        (tmp_path / "for-the-game").mkdir()
        await pilot.press("w", "ctrl+o")
        await until(pilot, "Choose a folder · this machine", "for-the-game/")
        await pilot.press(*"game", "enter")
        while "for-the-game/" in text(app) or "../" not in text(app):  # until it is open
            await pilot.pause(0.01)
        await pilot.press("down", "enter", "enter")  # past ../, to «take this folder»
        await until(pilot, "1 file is in")
        assert (tmp_path / "for-the-game" / "policy_1.onnx").read_bytes() == b"onnx"
