"""ECG beat encoder, trained in float32 and served in float16.

`load_for_serving()` converts the whole module with `.half()`; the bedside
gateway feeds half-precision beats (batch, beats, features) and the number of
beats per patient.  Self-attention between beats, padded beats excluded.
"""
import torch
from torch import nn


class BeatAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.dk = dim // heads
        self.lin_q = nn.Linear(dim, dim)
        self.lin_k = nn.Linear(dim, dim)
        self.lin_v = nn.Linear(dim, dim)
        self.lin_o = nn.Linear(dim, dim)

    def forward(self, x, pad):
        b, n, dim = x.shape
        q, k, v = [f(x).view(b, n, self.heads, self.dk).transpose(1, 2)
                   for f in (self.lin_q, self.lin_k, self.lin_v)]
        s = torch.matmul(q, k.transpose(-2, -1)) * self.dk ** -0.5
        s = s.masked_fill(pad[:, None, None, :], -1e9)
        p = torch.softmax(s.float(), dim=-1).to(v.dtype)
        return self.lin_o(torch.matmul(p, v).transpose(1, 2).reshape(b, n, dim))


class EcgEncoder(nn.Module):
    def __init__(self, features=10, dim=16, heads=2, classes=4):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.att = BeatAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, classes)

    def forward(self, beats, n_beats):
        pad = torch.arange(beats.size(1), device=beats.device) >= n_beats.unsqueeze(1)
        x = self.inp(beats)
        x = self.norm(x + self.att(x, pad))
        return self.cls(x)


def load_for_serving(state=None, **cfg):
    net = EcgEncoder(**cfg)
    if state is not None:
        net.load_state_dict(state)
    return net.half().eval()
