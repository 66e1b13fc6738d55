"""Next-event model over system logs, ALiBi instead of position embeddings so that we can
train on 256 events and score whole days."""
import math

import torch
import torch.nn as nn


def get_slopes(n):
    """Slopes of Press et al. (2022), including their rule for head counts that
    are no power of two."""

    def power_of_two(m):
        start = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [start * start**i for i in range(m)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    lower = 2 ** math.floor(math.log2(n))
    return power_of_two(lower) + power_of_two(2 * lower)[0::2][: n - lower]


class LogBlock(nn.Module):
    """One causal block. Bias is -slope * (i - j): far events count less."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.ln2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, width * 3)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
        self.register_buffer("slopes", torch.tensor(get_slopes(heads)), persistent=False)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        i = torch.arange(t, device=x.device)
        dist = (i[:, None] - i[None, :]).to(x.dtype)
        bias = -self.slopes[:, None, None] * dist
        bias = bias.masked_fill(dist < 0, float("-inf"))
        att = torch.baddbmm(
            bias.repeat(b, 1, 1),
            q.reshape(-1, t, w // self.heads),
            k.reshape(-1, t, w // self.heads).transpose(1, 2),
            alpha=(w // self.heads) ** -0.5,
        )
        y = torch.bmm(att.softmax(-1), v.reshape(-1, t, w // self.heads))
        y = y.view(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, w)
        x = x + self.out(y)
        return x + self.mlp(self.ln2(x))


class LogModel(nn.Module):
    def __init__(self, n_events=64, width=48, heads=6, depth=2):
        super().__init__()
        self.emb = nn.Embedding(n_events, width)
        self.blocks = nn.Sequential(*[LogBlock(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, n_events)

    def forward(self, events):
        """events (B, T) long -> logits of the next event (B, T, n_events)"""
        return self.head(self.blocks(self.emb(events)))
