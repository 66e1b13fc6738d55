import torch
from torch import nn


class YourRotary(nn.Module):
    def __init__(self, dim, base=150000.0):
        super().__init__()
        self.register_buffer("inv", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, t, positions):
        f = positions[:, None].float() * self.inv
        cos, sin = f.cos()[:, None], f.sin()[:, None]
        a, b = t.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def sdpa(Q, K, V, S, sm_scale, window=0):
    # Q: [n, kv, group, d]   K, V: [n, kv, d]   S: [kv*group]
    n, n_kv, group, d = Q.shape
    K = K[:, :, None].expand(-1, -1, group, -1)
    V = V[:, :, None].expand(-1, -1, group, -1)
    S = S.reshape(n_kv, group, 1, 1).expand(-1, -1, n, -1)
    bad = torch.triu(Q.new_full((n, n), -float("inf")), diagonal=1)
    if window > 0:
        bad = bad + torch.tril(Q.new_full((n, n), -float("inf")), diagonal=-window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K) * sm_scale
    QK = QK + bad[None, None]
    W = torch.softmax(torch.cat([QK, S], dim=-1), dim=-1)[..., :-1]
    return torch.einsum("hmqk,khmd->qhmd", W, V).reshape(n, -1)


class SinkAttention(nn.Module):
    """One (unbatched) sequence; a learned logit per head takes the mass that no token wants."""

    def __init__(self, hidden=48, heads=6, kv_heads=2, head_dim=8, window=0):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.window = heads, kv_heads, head_dim, window
        self.norm = nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, head_dim * (heads + 2 * kv_heads))
        self.out = nn.Linear(heads * head_dim, hidden)
        self.sinks = nn.Parameter(torch.randn(heads))
        self.rope = YourRotary(head_dim)
        self.sm_scale = 1 / head_dim ** 0.5

    def forward(self, x):
        n = x.shape[0]
        t = self.qkv(self.norm(x))
        a, b = self.heads * self.head_dim, self.kv_heads * self.head_dim
        q = t[:, :a].reshape(n, self.heads, self.head_dim)
        k = t[:, a : a + b].reshape(n, self.kv_heads, self.head_dim)
        v = t[:, a + b :].reshape(n, self.kv_heads, self.head_dim)
        pos = torch.arange(n, device=x.device)
        q = self.rope(q, pos).view(n, self.kv_heads, self.heads // self.kv_heads, self.head_dim)
        k = self.rope(k, pos)
        return x + self.out(sdpa(q, k, v, self.sinks, self.sm_scale, self.window))


if __name__ == "__main__":
    torch.manual_seed(5)
    x = torch.randn(10, 48)
    for w in (0, 3):
        print(SinkAttention(window=w)(x).norm())
