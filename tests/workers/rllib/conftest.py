"""One Ray for all tests of the package, which takes seconds to start, and connectors that are built quickly."""

import inspect
from functools import partial
from types import SimpleNamespace

import pytest

from mosaic.runtimes.ray.session import ray_session


@pytest.fixture(scope="package")
def ray():
    with ray_session(2) as session, pytest.MonkeyPatch.context() as patch:
        build_connectors_quickly(patch)
        yield session


def build_connectors_quickly(patch: pytest.MonkeyPatch) -> None:
    """Let RLlib's connectors look at the frame that builds them without reading the source of all frames above it.

    Below pytest's many frames that takes 30 ms for each of a dozen connectors of an algorithm.
    """
    from ray.rllib.connectors import connector_v2

    patch.setattr(
        connector_v2,
        "inspect",
        SimpleNamespace(stack=partial(inspect.stack, 0), getargvalues=inspect.getargvalues),
    )
