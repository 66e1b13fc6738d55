import torch
from torch import nn


class BidWindow(nn.Module):
    """Local causal attention for real-time bidding events.

    `lookback` counts the events a position may read, its own one included:
    lookback=1 reads only itself, lookback=3 reads itself and the two events before.
    """

    def __init__(self, dim: int, lookback: int):
        super().__init__()
        if lookback < 1:
            raise ValueError("lookback must be >= 1")
        self.lookback = lookback
        self.key = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def mask(self, n, device):
        t = torch.arange(n, device=device)
        age = t.unsqueeze(1) - t
        return (age >= 0) & (age <= self.lookback)

    def forward(self, events: torch.Tensor) -> torch.Tensor:
        """events: (batch, n, dim) -> (batch, n, dim)"""
        n, dim = events.shape[1:]
        s = self.query(events) @ self.key(events).transpose(1, 2)
        s = s / dim ** 0.5
        s = s.masked_fill(~self.mask(n, events.device), float("-inf"))
        return torch.softmax(s, dim=2) @ self.value(events)
