"""Behavioural biometrics (keystroke dynamics), master's thesis, chap. 5.

Stochastic attention: during training, attention weights are dropped with rate
`p` (inverted dropout, the rest scaled up); evaluation is deterministic.
"""
import torch
import torch.nn as nn

FEATURES = ("hold", "press_press", "release_press", "keycode")


class StochasticAttention(nn.Module):
    def __init__(self, size: int, heads: int = 2, p: float = 0.2):
        super().__init__()
        self.size, self.heads, self.p = size, heads, p
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.merge = nn.Linear(size, size)

    def _split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def forward(self, x, lengths=None):
        """x (B, T, size); lengths (B,) number of keystrokes, at least 1."""
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        e = torch.matmul(q, k.transpose(-1, -2)) / k.size(-1) ** 0.5
        if lengths is not None:
            valid = torch.arange(x.size(1), device=x.device) < lengths[:, None]
            e = e.masked_fill(~valid[:, None, None], float("-inf"))
        w = e.softmax(dim=-1)
        if not self.training:
            self.p = 0.0
        w = nn.functional.dropout(w, self.p)
        y = torch.matmul(w, v).transpose(-2, -3).flatten(-2)
        return self.merge(y)


class KeystrokeEncoder(nn.Module):
    """typing sample -> unit vector; users are compared by cosine"""

    def __init__(self, size=32, layers=2, vectors=16):
        super().__init__()
        self.timing = nn.Linear(3, size)
        self.code = nn.Embedding(256, size)
        self.attn = nn.ModuleList(StochasticAttention(size) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(size) for _ in range(layers))
        self.out = nn.Linear(size, vectors)

    def forward(self, timing, code, lengths):
        h = self.timing(timing) + self.code(code)
        for a, n in zip(self.attn, self.norm):
            h = n(h + a(h, lengths))
        valid = (torch.arange(h.size(1), device=h.device) < lengths[:, None]).unsqueeze(-1)
        h = (h * valid).sum(1) / lengths[:, None]
        return nn.functional.normalize(self.out(h), dim=-1)


def triplet(anchor, positive, negative, margin=0.2):
    d_ap = 1 - (anchor * positive).sum(-1)
    d_an = 1 - (anchor * negative).sum(-1)
    return (d_ap - d_an + margin).clamp(min=0).mean()


def equal_error_rate(genuine, impostor, steps=201):
    best = 1.0
    for t in torch.linspace(-1, 1, steps):
        frr = (genuine < t).float().mean()
        far = (impostor >= t).float().mean()
        best = min(best, float(torch.maximum(frr, far)))
    return best
