import math
import torch
import torch.nn as nn


def share(kv, groups):
    """(B, n_kv, S, d) -> (B, n_kv * groups, S, d); query heads 0 .. groups-1 read kv head 0, and so on."""
    return kv.repeat(1, groups, 1, 1)


class GroupedQueryLayer(nn.Module):
    def __init__(self, d_model=64, n_query=8, n_kv=2, ffn=96):
        super().__init__()
        self.n_query, self.n_kv, self.d = n_query, n_kv, d_model // n_query
        self.q = nn.Linear(d_model, n_query * self.d, bias=False)
        self.k = nn.Linear(d_model, n_kv * self.d, bias=False)
        self.v = nn.Linear(d_model, n_kv * self.d, bias=False)
        self.o = nn.Linear(n_query * self.d, d_model, bias=False)
        self.pre = nn.RMSNorm(d_model)
        self.post = nn.RMSNorm(d_model)
        self.gate, self.up, self.down = nn.Linear(d_model, ffn), nn.Linear(d_model, ffn), nn.Linear(ffn, d_model)

    def forward(self, x):
        """x: (B, S, d_model), causal"""
        B, S, _ = x.shape
        z = self.pre(x)
        q = self.q(z).view(B, S, self.n_query, self.d).transpose(1, 2)
        k = self.k(z).view(B, S, self.n_kv, self.d).transpose(1, 2)
        v = self.v(z).view(B, S, self.n_kv, self.d).transpose(1, 2)
        g = self.n_query // self.n_kv
        score = q @ share(k, g).transpose(-2, -1) / math.sqrt(self.d)
        score = score + torch.full((S, S), float("-inf"), device=x.device).triu(1)
        y = score.softmax(-1) @ share(v, g)
        x = x + self.o(y.transpose(1, 2).reshape(B, S, -1))
        z = self.post(x)
        return x + self.down(torch.nn.functional.silu(self.gate(z)) * self.up(z))
