import torch
from torch import nn


class PromoterReader(nn.Module):
    """Reads a promoter from 5' to 3'.

    Each base attends to `reach` bases in all: itself and the reach - 1 bases
    upstream of it. seq (B, L) with A, C, G, T = 0..3, returns (B, L, dim).
    """

    def __init__(self, dim=24, heads=3, reach=4):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.base = nn.Embedding(4, dim)
        self.mix = nn.Conv1d(dim, dim, 3, padding=2)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.back = nn.Linear(dim, dim)

    def forward(self, seq):
        L = seq.size(1)
        x = self.base(seq)
        x = x + self.mix(x.transpose(1, 2))[..., :L].transpose(1, 2)
        q, k, v = (f(x).unflatten(2, (self.heads, -1)).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
        step = torch.arange(L, device=seq.device)
        gap = step[:, None] - step[None, :]
        open_ = (gap >= 0) & (gap <= self.reach)
        s = torch.einsum("bhid,bhjd->bhij", q, k) * k.size(-1) ** -0.5
        s = s.masked_fill(~open_, float("-inf"))
        y = torch.einsum("bhij,bhjd->bihd", s.softmax(-1), v).flatten(2)
        return x + self.back(y)
