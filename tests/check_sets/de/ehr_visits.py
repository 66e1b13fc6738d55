"""Patient visits at irregular days; visits are padded at the end to the longest history."""
import torch
from torch import nn


class VisitEncoder(nn.Module):
    def __init__(self, codes=50, dim=32, heads=4, half_life=90.0):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.code = nn.EmbeddingBag(codes, dim, mode="sum", padding_idx=0)
        self.log_life = nn.Parameter(torch.full((heads,), half_life).log())
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def fold(self, t):
        return t.unflatten(-1, (self.heads, self.hd)).transpose(1, 2)

    def forward(self, codes, day, n_visits):
        """codes (B, V, K) with 0 = no code, day (B, V) floats, n_visits (B,) >= 1.

        Visits look at all real visits of the same patient, less so at those far away
        in time. Padding is not looked at. Returns (B, V, dim); rows of the padding
        are meaningless.
        """
        B, V, K = codes.shape
        x = self.code(codes.view(B * V, K)).view(B, V, -1)
        q, k, v = self.fold(self.wq(x)), self.fold(self.wk(x)), self.fold(self.wv(x))
        apart = (day[:, :, None] - day[:, None, :]).abs()[:, None]
        s = q @ k.transpose(-2, -1) / self.hd ** 0.5
        s = s - apart / self.log_life.exp()[:, None, None]
        real = torch.arange(V, device=day.device)[None] < n_visits[:, None]
        ok = real[:, None, :, None]
        s = torch.where(ok, s, torch.finfo(s.dtype).min)
        y = s.softmax(-1) @ v
        return x + self.wo(y.transpose(1, 2).flatten(2))
