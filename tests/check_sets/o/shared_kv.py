import torch
import torch.nn as nn


class SharedKVAttention(nn.Module):
    """Grouped queries, heads kept on axis 2: query head h reads key-value head h // (n_heads // n_kv)."""

    def __init__(self, dim=24, n_heads=4, n_kv=2):
        super().__init__()
        self.n_heads, self.n_kv, self.d = n_heads, n_kv, dim // n_heads
        self.q = nn.Linear(dim, n_heads * self.d)
        self.kv = nn.Linear(dim, 2 * n_kv * self.d)
        self.o = nn.Linear(n_heads * self.d, dim)

    def forward(self, x, memory):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.n_heads, self.d)
        k, v = self.kv(memory).view(b, -1, 2, self.n_kv, self.d).unbind(2)
        rep = self.n_heads // self.n_kv
        k = k.repeat_interleave(rep, dim=1).view(b, -1, self.n_heads, self.d)
        v = v.repeat_interleave(rep, dim=1).view(b, -1, self.n_heads, self.d)
        w = torch.einsum("bthd,bshd->bhts", q, k).mul(self.d ** -0.5).softmax(-1)
        return self.o(torch.einsum("bhts,bshd->bthd", w, v).flatten(2))
