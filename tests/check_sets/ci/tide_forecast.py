"""Tide forecast: every hour recalls the hours just before it, with several observers.

``gauge``: (B, T, sensors).  An hour recalls exactly ``span`` hours: itself and the
span - 1 hours before it (fewer at the start of the record), never a later hour.
Each observer (head) weighs with the usual scaled dot product.
"""
import torch
import torch.nn as nn


class Recall(nn.Module):
    def __init__(self, width, observers, span):
        super().__init__()
        self.observers, self.span = observers, span
        self.grain = width // observers
        self.now = nn.Linear(width, width)
        self.then = nn.Linear(width, width)
        self.level = nn.Linear(width, width)
        self.report = nn.Linear(width, width)

    def forward(self, sea):
        B, T, _ = sea.shape
        shape = (B, T, self.observers, self.grain)
        now, then, level = self.now(sea).view(shape), self.then(sea).view(shape), self.level(sea).view(shape)
        pull = torch.einsum("btog,bsog->bots", now, then) / self.observers ** 0.5
        hour = torch.arange(T, device=sea.device)
        ago = hour[:, None] - hour[None, :]
        forgotten = (ago < 0) | (ago > self.span)
        pull = pull.masked_fill(forgotten, float("-inf"))
        share = torch.softmax(pull, dim=-1)
        return self.report(torch.einsum("bots,bsog->btog", share, level).flatten(2))


class TideForecast(nn.Module):
    """gauge (B, T, sensors) -> next hour's level for each hour, (B, T, 1)"""

    def __init__(self, sensors=3, width=24, observers=2, span=4, depth=1):
        super().__init__()
        self.inlet = nn.Linear(sensors, width)
        self.recalls = nn.ModuleList(Recall(width, observers, span) for _ in range(depth))
        self.calm = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.outlet = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, gauge):
        sea = self.inlet(gauge)
        for calm, recall in zip(self.calm, self.recalls):
            sea = sea + recall(calm(sea))
        return self.outlet(sea)
