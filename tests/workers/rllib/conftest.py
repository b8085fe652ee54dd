"""One Ray for all tests of the package: it takes seconds to start."""

import pytest

from mosaic.runtimes.ray.session import ray_session


@pytest.fixture(scope="package")
def ray():
    with ray_session(2) as session:
        yield session
