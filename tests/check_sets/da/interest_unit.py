import torch
from torch import nn


class InterestUnit(nn.Module):
    """Target-aware pooling of a reading history (papers a scientist has opened).

    candidate (B, d), history (B, L, d), n_read (B,) with 0 <= n_read <= L.
    The relevance of every past item is a sigmoid, not a softmax: a long and
    relevant history shall give a longer vector than a short one.
    """

    def __init__(self, d=8, hidden=12):
        super().__init__()
        self.judge = nn.Sequential(nn.Linear(4 * d, hidden), nn.PReLU(), nn.Linear(hidden, 1))

    def forward(self, candidate, history, n_read):
        c = candidate.unsqueeze(1).expand_as(history)
        r = self.judge(torch.cat([c, history, c - history, c * history], dim=-1)).sigmoid()
        read = torch.arange(history.shape[1], device=history.device)[None] < n_read[:, None]
        return torch.where(read.unsqueeze(-1), r * history, torch.zeros_like(history)).sum(1)
