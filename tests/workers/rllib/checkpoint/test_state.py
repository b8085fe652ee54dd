"""Checkpoints of RLlib runs that cannot be restored."""

import pickle

import pytest

from mosaic.core.errors import InputError
from mosaic.workers.rllib.checkpoint import state
from mosaic.workers.rllib.checkpoint.state import load_state


class Broken:
    """An algorithm whose checkpoint names a module that does not exist."""

    def __init__(self, module):
        self._module = module

    def restore_from_path(self, path):
        raise ModuleNotFoundError(f"No module named '{self._module}'", name=self._module)


def test_a_checkpoint_that_names_a_moved_module_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"whose module mosaic\.workers\.rllib\.a2c has moved"):
        load_state(tmp_path, Broken("mosaic.workers.rllib.a2c"), None)


def test_other_missing_modules_are_errors_of_their_own(tmp_path):
    with pytest.raises(ModuleNotFoundError, match="torch_directml"):
        load_state(tmp_path, Broken("torch_directml"), None)


class Renamed:
    """An algorithm whose checkpoint is this pickle."""

    def __init__(self, pickled):
        self._pickled = pickled

    def restore_from_path(self, path):
        pickle.loads(self._pickled)


def pickled_class(module, name, monkeypatch):
    """Return a pickle of a class that the module has only while it is written."""
    kind = type(name, (), {"__module__": module.__name__})
    with monkeypatch.context() as patch:
        patch.setattr(module, name, kind, raising=False)
        return pickle.dumps(kind)


def test_a_checkpoint_that_names_a_renamed_class_is_refused(tmp_path, monkeypatch):
    pickled = pickled_class(state, "SeatedPpoModule", monkeypatch)
    with pytest.raises(
        InputError, match=r"whose class mosaic\.workers\.rllib\.checkpoint\.state\.SeatedPpoModule was renam"
    ):
        load_state(tmp_path, Renamed(pickled), None)


def test_classes_that_other_packages_lack_are_errors_of_their_own(tmp_path, monkeypatch):
    pickled = pickled_class(pytest, "Gone", monkeypatch)
    with pytest.raises(AttributeError, match="Gone"):
        load_state(tmp_path, Renamed(pickled), None)
