"""Click-through model with target-aware interest pooling (Deep Interest Network, KDD'18)."""
from typing import Dict, List, Sequence

import torch
import torch.nn as nn


class Dice(nn.Module):
    """x * p + alpha * x * (1 - p) with p = sigmoid(batchnorm(x))."""

    def __init__(self, n: int):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, eps=1e-8, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        shape = x.shape
        p = torch.sigmoid(self.bn(x.reshape(-1, shape[-1]))).view(shape)
        return p * x + (1 - p) * self.alpha * x


class ActivationUnit(nn.Module):
    def __init__(self, dim: int, hidden: Sequence[int] = (36,)):
        super().__init__()
        layers: List[nn.Module] = []
        last = 4 * dim
        for h in hidden:
            layers += [nn.Linear(last, h), nn.PReLU()]
            last = h
        layers.append(nn.Linear(last, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, target, history):
        t = target.unsqueeze(1).expand_as(history)
        feats = torch.cat([t, history, t - history, t * history], dim=-1)
        return self.net(feats).squeeze(-1)


class InterestPooling(nn.Module):
    """Weighted sum of the user's behaviours.

    Section 4.3 of the paper: "the constraint sum_j w_j = 1 is relaxed", i.e. the output of
    the activation unit *is* the weight, so that the length of the pooled vector keeps the
    intensity of the interest. Set `normalize=True` for the softmax variant.
    """

    def __init__(self, dim: int, hidden: Sequence[int] = (36,), normalize: bool = False):
        super().__init__()
        self.unit = ActivationUnit(dim, hidden)
        self.normalize = normalize

    def forward(self, target: torch.Tensor, history: torch.Tensor, length: torch.Tensor):
        """target (B, D), history (B, T, D), length (B,) -> pooled (B, D), weights (B, T)

        An empty history pools to the zero vector.
        """
        w = self.unit(target, history)
        steps = torch.arange(history.size(1), device=history.device)
        real = steps.unsqueeze(0) < length.unsqueeze(1)
        if self.normalize:
            w = w.masked_fill(~real, torch.finfo(w.dtype).min).softmax(dim=-1)
        w = torch.where(real, w, torch.zeros_like(w))
        return torch.einsum("bt,btd->bd", w, history), w


class DIN(nn.Module):
    def __init__(self, sizes: Dict[str, int], dim: int = 8, hidden: Sequence[int] = (80, 40)):
        super().__init__()
        self.user = nn.Embedding(sizes["user"], dim)
        self.item = nn.Embedding(sizes["item"], dim, padding_idx=0)
        self.cate = nn.Embedding(sizes["cate"], dim, padding_idx=0)
        self.pool = InterestPooling(2 * dim)
        layers: List[nn.Module] = []
        last = 5 * dim
        for h in hidden:
            layers += [nn.Linear(last, h), Dice(h)]
            last = h
        self.mlp = nn.Sequential(*layers, nn.Linear(last, 1))

    def forward(self, batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        target = torch.cat([self.item(batch["item"]), self.cate(batch["cate"])], -1)
        hist = torch.cat([self.item(batch["hist_item"]), self.cate(batch["hist_cate"])], -1)
        interest, _ = self.pool(target, hist, batch["hist_len"])
        x = torch.cat([self.user(batch["user"]), interest, target], dim=-1)
        return self.mlp(x).squeeze(-1)


if __name__ == "__main__":
    g = torch.Generator().manual_seed(0)
    B, T = 4, 6
    batch = {
        "user": torch.randint(0, 9, (B,), generator=g),
        "item": torch.randint(1, 20, (B,), generator=g),
        "cate": torch.randint(1, 5, (B,), generator=g),
        "hist_item": torch.randint(1, 20, (B, T), generator=g),
        "hist_cate": torch.randint(1, 5, (B, T), generator=g),
        "hist_len": torch.tensor([6, 3, 1, 0]),
    }
    print(DIN({"user": 9, "item": 20, "cate": 5})(batch))
