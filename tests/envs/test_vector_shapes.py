"""Where the numbers of many envs lie."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.vector import CompiledKernel, CompiledVector, make_compiled_vector
from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape, vector_arrays

HEADS = (ActionHead("categorical", (3, 2)), ActionHead("gaussian", (4,)))


@pytest.mark.parametrize(("turn_based", "slots", "who"), [(False, 6, [0, 1, 0, 1, 0, 1]), (True, 3, [0, 0, 0])])
def test_slots_follow_envs_and_rows_follow_agents(turn_based, slots, who):
    shape = VectorShape(3, ("a", "b"), turn_based, (7, 5), HEADS, masked=True)
    assert (shape.slots, shape.rows, shape.width, shape.mask_width, shape.parts) == (slots, 6, 7, 5, 4)
    arrays = vector_arrays(shape)
    assert arrays.obs.shape == (slots, 7)
    assert arrays.mask.shape == (slots, 5)
    assert arrays.who.tolist() == who
    assert arrays.active.tolist() == [1] * slots
    assert (arrays.rew.shape, arrays.term.shape, arrays.trunc.shape, arrays.fin.shape) == ((6,), (6,), (6,), (6, 7))
    assert "".join(array.dtype.char for array in arrays) == "fBlBfBBf"
    assert all(array.flags.c_contiguous for array in arrays)


def test_without_masks_none_are_kept():
    shape = VectorShape(3, ("a", "b"), False, (7, 5), HEADS, masked=False)
    assert vector_arrays(shape).mask.shape == (0, 5)


def test_an_env_without_a_way_to_be_drawn_has_no_picture():
    vector = make_compiled_vector(EnvironmentConfig(env_id="gym/CartPole-v1"), 2)
    undrawn = CompiledVector(vector.kernel._replace(load=None), 2, lambda: pytest.fail("needs no reference env"))
    undrawn.reset(0)
    assert undrawn.render(0) is None
    assert isinstance(vector.kernel, CompiledKernel)
    assert CompiledVector(vector.kernel, 2).render(0) is None


def test_arrays_stay_the_same_objects():
    vector = make_compiled_vector(EnvironmentConfig(env_id="gym/CartPole-v1"), 2)
    before = [array.ctypes.data for array in vector.arrays]
    vector.reset(0)
    vector.step(np.ones((2, 1), np.float32))
    fields = (vector.obs, vector.mask, vector.who, vector.active, vector.rew, vector.term, vector.trunc, vector.fin)
    assert [array.ctypes.data for array in fields] == before


def test_actions_of_another_shape_are_refused():
    vector = make_compiled_vector(EnvironmentConfig(env_id="gym/CartPole-v1"), 2)
    vector.reset(0)
    with pytest.raises(ValueError, match=r"Actions of shape \(1, 1\), but \(2, 1\) \(slots, parts\) are needed"):
        vector.step(np.ones((1, 1), np.float32))
