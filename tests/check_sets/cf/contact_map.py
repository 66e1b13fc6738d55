"""Protein contacts from attention maps.

A small encoder over amino acids whose layers also hand back their attention maps
(probabilities, each row sums to one).  The contact head symmetrises the maps,
applies the average product correction and feeds them to a logistic regression;
during training the same maps go into an entropy regulariser.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def symmetrise(x):
    return x + x.transpose(-1, -2)


def apc(x):
    """Average product correction of maps [..., L, L]."""
    a1 = x.sum(-1, keepdim=True)
    a2 = x.sum(-2, keepdim=True)
    return x - a1 * a2 / x.sum((-1, -2), keepdim=True)


class MapAttention(nn.Module):
    def __init__(self, dim, heads, p_drop):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.drop = nn.Dropout(p_drop)

    def forward(self, x, keep):
        """x [B, L, D], keep [B, L] bool -> output [B, L, D], maps [B, H, L, L]"""
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.heads, D // self.heads).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        logits = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        logits = logits.masked_fill(~keep[:, None, None, :], float("-inf"))
        maps = logits.softmax(-1)
        maps = self.drop(maps)
        y = (maps @ v).transpose(1, 2).reshape(B, L, D)
        return self.o(y), maps


class ContactEncoder(nn.Module):
    def __init__(self, n_tokens=25, dim=32, heads=4, layers=2, p_drop=0.1, pad=0):
        super().__init__()
        self.pad = pad
        self.embed = nn.Embedding(n_tokens, dim, padding_idx=pad)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.attns = nn.ModuleList(MapAttention(dim, heads, p_drop) for _ in range(layers))
        self.regress = nn.Linear(layers * heads, 1)

    def forward(self, tokens):
        """tokens [B, L] -> contact logits [B, L, L], maps [B, layers * heads, L, L]"""
        keep = tokens != self.pad
        x, maps = self.embed(tokens), []
        for norm, attn in zip(self.norms, self.attns):
            y, m = attn(norm(x), keep)
            x = x + y
            maps.append(m)
        maps = torch.cat(maps, dim=1)
        features = apc(symmetrise(maps)).permute(0, 2, 3, 1)
        return self.regress(features).squeeze(-1), maps

    def loss(self, tokens, contacts, beta=0.01):
        logits, maps = self(tokens)
        entropy = -(maps * (maps + 1e-9).log()).sum(-1).mean()
        return F.binary_cross_entropy_with_logits(logits, contacts) + beta * entropy
