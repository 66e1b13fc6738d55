"""Many singers, few conductors (grouped heads) over a causal line of bars.

``bars``: (B, T, D).  S singers (query heads) follow C conductors (key/value heads),
S = C * n.  The singers stand in rows: the first n singers follow conductor 0, the next
n follow conductor 1, and so on, as in the checkpoints we load.  A bar hears only itself
and earlier bars.
"""
import math

import torch
from torch import nn


class Choir(nn.Module):
    def __init__(self, D=32, S=4, C=2):
        super().__init__()
        assert S % C == 0
        self.S, self.C, self.e = S, C, D // S
        self.voice = nn.Linear(D, S * self.e, bias=False)
        self.baton = nn.Linear(D, C * self.e, bias=False)
        self.score = nn.Linear(D, C * self.e, bias=False)
        self.hall = nn.Linear(S * self.e, D, bias=False)

    def forward(self, bars):
        B, T, D = bars.shape
        voice = self.voice(bars).view(B, T, self.S, self.e).transpose(1, 2)
        baton = self.baton(bars).view(B, T, self.C, self.e).transpose(1, 2)
        score = self.score(bars).view(B, T, self.C, self.e).transpose(1, 2)

        n = self.S // self.C
        baton = baton.repeat(1, n, 1, 1)
        score = score.repeat(1, n, 1, 1)

        hear = voice @ baton.mT / math.sqrt(self.e)
        later = torch.ones(T, T, dtype=torch.bool, device=bars.device).triu(1)
        hear = hear.masked_fill(later, float("-inf"))
        loud = torch.softmax(hear, dim=-1)
        sound = (loud @ score).transpose(1, 2).reshape(B, T, self.S * self.e)
        return self.hall(sound)
