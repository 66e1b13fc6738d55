import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, hidden: int, n_heads: int, n_kv: int, head_dim: int, window: int = 0):
        super().__init__()
        self.n_heads, self.n_kv, self.hd, self.window = n_heads, n_kv, head_dim, window
        self.qkv = nn.Linear(hidden, (n_heads + 2 * n_kv) * head_dim)
        self.out = nn.Linear(n_heads * head_dim, hidden)
        self.sinks = nn.Parameter(torch.randn(n_heads))
        self.sm_scale = head_dim**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        g = self.n_heads // self.n_kv
        q, k, v = self.qkv(x).split([self.n_heads * self.hd, self.n_kv * self.hd, self.n_kv * self.hd], dim=-1)
        q = q.view(b, n, self.n_kv, g, self.hd)
        k = k.view(b, n, self.n_kv, self.hd)
        v = v.view(b, n, self.n_kv, self.hd)
        qk = torch.einsum("bqhgd,bkhd->bhgqk", q, k) * self.sm_scale
        mask = torch.triu(x.new_full((n, n), -float("inf")), diagonal=1)
        if self.window > 0:
            mask = mask + torch.tril(mask.new_full((n, n), -float("inf")), diagonal=-self.window)
        qk = qk + mask
        s = self.sinks.view(1, self.n_kv, g, 1, 1).expand(b, -1, -1, n, -1)
        w = torch.softmax(torch.cat([qk, s], dim=-1), dim=-1)[..., :-1]
        y = torch.einsum("bhgqk,bkhd->bqhgd", w, v)
        return self.out(y.reshape(b, n, -1))
