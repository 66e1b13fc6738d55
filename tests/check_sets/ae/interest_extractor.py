from typing import NamedTuple

import torch
from torch import nn, Tensor


class InterestConfig(NamedTuple):
    item_dim: int = 32
    hidden: int = 48
    n_interests: int = 4


class MultiInterest(nn.Module):
    """Self-attentive interest extraction from a click history.

    Every interest is a convex combination of the clicked items, so interests
    live in the item space and can be used directly for ANN retrieval.

    history: (B, L, D) item embeddings
    clicked: (B, L) bool, True for a real click (each user has >= 1)
    returns interests (B, K, D) and the attention map (B, K, L)
    """

    def __init__(self, cfg: InterestConfig):
        super().__init__()
        self.cfg = cfg
        self.inner = nn.Linear(cfg.item_dim, cfg.hidden, bias=False)
        self.heads = nn.Linear(cfg.hidden, cfg.n_interests, bias=False)

    def forward(self, history: Tensor, clicked: Tensor):
        z = self.heads(torch.tanh(self.inner(history)))      # B L K
        z = z.transpose(1, 2)                                # B K L
        z = z.masked_fill(~clicked[:, None, :], float("-inf"))
        a = z.flatten(1).softmax(-1).view_as(z)
        return a @ history, a


def hard_read_out(interests: Tensor, target: Tensor) -> Tensor:
    """Pick, per user, the interest closest to the target item (training only)."""
    idx = (interests @ target.unsqueeze(-1)).squeeze(-1).argmax(1)
    return interests[torch.arange(len(idx), device=idx.device), idx]
