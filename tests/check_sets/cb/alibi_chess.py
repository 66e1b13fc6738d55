"""Next-move model for chess games written as UCI move tokens ("e2e4 e7e5 ...").

ALiBi (Press et al., 2022) instead of position embeddings, so that a model trained on
games of <= 80 plies can be read on 200. Slopes for a head count that is not a power
of two follow the authors' code: the closest smaller power first, then every second
slope of the doubled one.
"""
import math
import torch
import torch.nn as nn


def alibi_slopes(n):
    def power_of_two(m):
        first = 2 ** (-8.0 / m)
        return [first ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    m = 2 ** int(math.floor(math.log2(n)))
    return power_of_two(m) + power_of_two(2 * m)[0::2][: n - m]


class ALiBiSelfAttention(nn.Module):
    def __init__(self, width, n_head, p_drop=0.1):
        super().__init__()
        self.n_head = n_head
        self.d = width // n_head
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        self.drop = nn.Dropout(p_drop)
        self.register_buffer("slopes", torch.tensor(alibi_slopes(n_head)))

    def bias(self, t):
        pos = torch.arange(t, device=self.slopes.device)
        dist = pos[:, None] - pos[None, :]                    # i - j, >= 0 in the past
        b = -self.slopes[:, None, None] * dist.clamp(min=0)
        future = dist < 0
        return b.masked_fill(future, float("-inf"))           # n_head, t, t

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.in_proj(x).reshape(b, t, 3, self.n_head, self.d).permute(2, 0, 3, 1, 4)
        att = (q @ k.mT) / math.sqrt(self.d) + self.bias(t)
        att = self.drop(att.softmax(dim=-1))
        y = (att @ v).permute(0, 2, 1, 3).flatten(2)
        return self.out_proj(y)


class MoveModel(nn.Module):
    def __init__(self, n_moves, width=48, n_head=6, depth=2):
        super().__init__()
        self.emb = nn.Embedding(n_moves, width)
        self.attn = nn.ModuleList([ALiBiSelfAttention(width, n_head) for _ in range(depth)])
        self.ln1 = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.ff = nn.ModuleList([
            nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        ])
        self.head = nn.Linear(width, n_moves)

    def forward(self, moves):
        x = self.emb(moves)
        for attn, l1, l2, ff in zip(self.attn, self.ln1, self.ln2, self.ff):
            x = x + attn(l1(x))
            x = x + ff(l2(x))
        return self.head(x)

    @torch.no_grad()
    def suggest(self, moves, legal):
        """legal: bool (n_moves,). Returns the best legal move after each game of the batch."""
        logits = self(moves)[:, -1]
        return logits.masked_fill(~legal, float("-inf")).argmax(-1)
