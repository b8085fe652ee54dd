"""Adam and clipping against torch."""

import numpy as np
import pytest

from mosaic.learners.engines.adam import adam, make_optimiser

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("max_grad_norm", "epsilon"), [(0.5, 1e-5), (10.0, 1e-8), (0.0, 1e-8)])
def test_adam_is_torchs(max_grad_norm, epsilon):
    random = np.random.default_rng(0)
    weights = random.standard_normal(257).astype(np.float32)
    flat = torch.nn.Parameter(torch.tensor(weights))
    theirs = torch.optim.Adam([flat], lr=3e-3, eps=epsilon)
    ours = make_optimiser(weights)
    for step in range(40):
        slope = (random.standard_normal(257) * (0.01 + step % 3)).astype(np.float32)
        ours.gradient[:] = slope
        norm = adam(ours, 3e-3, max_grad_norm, epsilon)
        assert norm == pytest.approx(np.linalg.norm(slope), rel=1e-5)
        flat.grad = torch.tensor(slope)
        if max_grad_norm:
            torch.nn.utils.clip_grad_norm_([flat], max_grad_norm)
        theirs.step()
    assert ours.count[0] == 40
    assert ours.weights is weights
    np.testing.assert_allclose(weights, flat.detach().numpy(), rtol=1e-5, atol=1e-6)
