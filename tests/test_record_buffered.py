"""overt.record where keys lie in buffers, and where what was split into heads is changed before it attends."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt

D, H, L, W = 6, 4, 8, 24
SDPA = functional.scaled_dot_product_attention


def eager(q: Tensor, k: Tensor, seen: Tensor | None = None) -> np.ndarray:
    """Weights by the definition."""
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    return (scores if seen is None else scores.masked_fill(~seen, -torch.inf)).softmax(-1).numpy()


class Cached(nn.Module):
    """Grouped keys that are written into a cache with room to spare."""

    def __init__(self, batch: int, written: str, mix: str) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(W, H * D), nn.Linear(W, H // 2 * D), nn.Linear(W, H // 2 * D)
        self.keys, self.values = (torch.zeros(batch, H // 2, L, D) for _ in "kv")
        self.written, self.mix, self.seen = written, mix, []  # type: ignore[var-annotated]

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, -1, D).transpose(1, 2) for f in (self.q, self.k, self.v))
        for cache, new in ((self.keys, k), (self.values, v)):
            if self.written == "index":
                cache[:, :, at] = new
            else:
                cache.index_copy_(2, at, new)
        k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for x in (self.keys, self.values))
        seen = torch.arange(L) <= at[:, None]
        self.seen.append((q.clone(), k.clone(), seen))
        if self.mix == "sdpa":
            return SDPA(q, k, v, attn_mask=seen)
        return (q @ k.mT / D**0.5).masked_fill(~seen, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("written", "mix"), [("index", "sdpa"), ("copy", "sdpa"), ("index", "softmax")])
def test_one_query_and_grouped_keys_of_a_cache(batch: int, written: str, mix: str) -> None:
    torch.manual_seed(0)
    model, x = Cached(batch, written, mix), torch.randn(batch, 5, W)
    with torch.no_grad(), overt.record(model) as rec:
        model(x[:, :3], torch.arange(3))
        for i in (3, 4):
            model(x[:, i : i + 1], torch.tensor([i]))
    for call, given in zip(rec.calls(""), model.seen, strict=True):
        got = np.asarray(call.weights)
        np.testing.assert_allclose(got, eager(*given)[..., : got.shape[-1]], atol=1e-6)
    if mix == "sdpa":
        assert rec[""].weights.shape == (batch, H, 5, 5)
