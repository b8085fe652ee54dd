"""One Ray for all tests of a module: it takes seconds to start."""

import pytest

from mosaic.runtimes.ray.session import ray_session


@pytest.fixture(scope="module")
def ray():
    with ray_session(2) as session:
        yield session
