"""Route-log model of a haulage firm: next delay from the stops driven so far.

Weights are taken over from the Megatron-trained network: its fused matrix
`query_key_value` is stored head by head, i.e. the output features are

    [q_0 | k_0 | v_0 | q_1 | k_1 | v_1 | ...]     (each of head_dim)

No position embedding; ALiBi instead (a stop d places back is penalised by
slope * d, slopes 2^(-8/n), 2^(-16/n), ... for n heads, n a power of two).
Causal: a stop sees itself and the stops before it.
"""
import torch
from torch import nn


class RouteAttention(nn.Module):
    def __init__(self, hidden_size=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / num_heads) for h in range(num_heads)])
        self.register_buffer("slopes", slopes, persistent=False)

    def alibi(self, n):
        idx = torch.arange(n, device=self.slopes.device)
        distance = idx[:, None] - idx[None, :]
        return self.slopes[:, None, None] * distance

    def forward(self, x):
        b, n, _ = x.shape
        fused = self.query_key_value(x).view(b, n, 3, self.num_heads, self.head_dim)
        q, k, v = (t.transpose(1, 2) for t in fused.unbind(dim=2))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / self.head_dim ** 0.5
        scores = scores + self.alibi(n).to(scores.dtype)
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        ctx = torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v)
        return self.dense(ctx.reshape(b, n, -1))


class DelayModel(nn.Module):
    def __init__(self, features=7, hidden_size=32, num_heads=4):
        super().__init__()
        self.stop = nn.Linear(features, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.attn = RouteAttention(hidden_size, num_heads)
        self.delay = nn.Linear(hidden_size, 1)

    def forward(self, stops):
        x = self.stop(stops)
        return self.delay(x + self.attn(self.norm(x))).squeeze(-1)
