# MPT-ähnlicher Decoder: ALiBi + Multi-Query (ein einziger K/V-Kopf für alle).
import math
from collections import namedtuple

import torch
import torch.nn as nn

Past = namedtuple("Past", "k v")


def get_slopes(n):
    """Steigungen nach Press et al., auch für n, das keine Zweierpotenz ist."""
    def pot2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]
    if math.log2(n).is_integer():
        return pot2(n)
    m = 2 ** math.floor(math.log2(n))
    return pot2(m) + pot2(2 * m)[0::2][: n - m]


class MultiQueryAlibi(nn.Module):
    """x [B,T,C] -> y [B,T,C], Past. Kausal; Past enthält die früheren K/V [B,S,d]."""

    def __init__(self, d_model, n_heads, clip_qkv=None):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.d = d_model // n_heads
        self.clip_qkv = clip_qkv
        self.Wqkv = nn.Linear(d_model, d_model + 2 * self.d)
        self.out_proj = nn.Linear(d_model, d_model)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_heads)), persistent=False)

    def bias(self, t, s, device):
        zeile = torch.arange(s - t, s, device=device)[:, None]
        spalte = torch.arange(s, device=device)[None, :]
        abstand = (spalte - zeile).float()              # <= 0 in der Vergangenheit
        b = self.slopes.view(-1, 1, 1) * abstand
        return b.masked_fill(spalte > zeile, float("-inf"))

    def forward(self, x, past=None):
        B, T, C = x.shape
        qkv = self.Wqkv(x)
        if self.clip_qkv:
            qkv = qkv.clamp(-self.clip_qkv, self.clip_qkv)
        q, k, v = qkv.split([C, self.d, self.d], dim=2)
        if past is not None:
            k = torch.cat([past.k, k], dim=1)
            v = torch.cat([past.v, v], dim=1)
        S = k.size(1)
        q = q.view(B, T, self.n_heads, self.d).permute(0, 2, 1, 3)
        att = q @ k.unsqueeze(1).transpose(-1, -2) / math.sqrt(self.d)
        att = att + self.bias(T, S, x.device)
        att = torch.softmax(att, dim=-1, dtype=torch.float32).to(q.dtype)
        y = att @ v.unsqueeze(1)
        y = y.permute(0, 2, 1, 3).reshape(B, T, C)
        return self.out_proj(y), Past(k, v)


if __name__ == "__main__":
    schicht = MultiQueryAlibi(48, 6)
    y, p = schicht(torch.randn(1, 5, 48))
    for _ in range(3):
        y, p = schicht(y[:, -1:], p)
    print(p.k.shape)
