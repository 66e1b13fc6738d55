"""Graph matcher for local features, channels first ([B, D, N]) like the detector."""
import torch
from torch import nn


def MLP(chs):
    out = []
    for i in range(1, len(chs)):
        out.append(nn.Conv1d(chs[i - 1], chs[i], 1))
        if i < len(chs) - 1:
            out += [nn.InstanceNorm1d(chs[i]), nn.ReLU()]
    return nn.Sequential(*out)


def attention(query, key, value, valid=None):
    """[B, d, H, N] x [B, d, H, M]; valid [B, M] bool, True = keypoint is real (each image has some)"""
    dim = query.shape[1]
    scores = torch.einsum("bdhn,bdhm->bhnm", query, key) / dim ** .5
    if valid is not None:
        scores = scores.masked_fill(~valid[:, None, None, :], float("-inf"))
    prob = torch.nn.functional.softmax(scores, dim=-1)
    return torch.einsum("bhnm,bdhm->bdhn", prob, value), prob


class MultiHeadedAttention(nn.Module):
    """The channel index runs head fastest (c = d_idx * heads + head), both on the way
    in and on the way out; the merge convolution is trained with this order."""

    def __init__(self, num_heads, d_model):
        super().__init__()
        assert d_model % num_heads == 0
        self.dim = d_model // num_heads
        self.num_heads = num_heads
        self.merge = nn.Conv1d(d_model, d_model, 1)
        self.proj = nn.ModuleList([nn.Conv1d(d_model, d_model, 1) for _ in range(3)])

    def forward(self, query, key, value, valid=None):
        b = query.size(0)
        query, key, value = [l(x).view(b, self.dim, self.num_heads, -1)
                             for l, x in zip(self.proj, (query, key, value))]
        x, _ = attention(query, key, value, valid)
        return self.merge(x.contiguous().view(b, self.dim * self.num_heads, -1))


class Propagation(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attn = MultiHeadedAttention(heads, d)
        self.mlp = MLP([d * 2, d * 2, d])
        nn.init.zeros_(self.mlp[-1].bias)

    def forward(self, x, source, valid=None):
        return self.mlp(torch.cat([x, self.attn(x, source, source, valid)], dim=1))


class MatcherGNN(nn.Module):
    def __init__(self, d=64, heads=4, names=("self", "cross") * 2):
        super().__init__()
        self.names = names
        self.layers = nn.ModuleList(Propagation(d, heads) for _ in names)

    def forward(self, d0, d1, ok0=None, ok1=None):
        for layer, name in zip(self.layers, self.names):
            s0, s1, m0, m1 = (d1, d0, ok1, ok0) if name == "cross" else (d0, d1, ok0, ok1)
            n0, n1 = layer(d0, s0, m0), layer(d1, s1, m1)
            d0, d1 = d0 + n0, d1 + n1
        return d0, d1
