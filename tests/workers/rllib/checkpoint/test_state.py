"""Checkpoints of RLlib runs that cannot be restored."""

import pytest

from mosaic.core.errors import InputError
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
