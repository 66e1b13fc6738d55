"""Outage localisation on the medium-voltage grid.

Every sample is a feeder with up to N substations. Which pairs of substations are
electrically connected differs from feeder to feeder, so the mask is per sample.
"""
import torch
import torch.nn as nn


class FeederAttention(nn.Module):
    """Multi-head attention with heads folded into the batch axis (one big bmm).

    Parameters
    ----------
    dim : model width
    heads : number of heads, must divide dim

    forward(nodes, linked)
        nodes  : (B, N, dim)
        linked : (B, N, N) bool, linked[b, i, j] True if i may look at j. Every
                 station is linked to itself.
    """

    def __init__(self, dim: int = 32, heads: int = 4, dropout: float = 0.0):
        super().__init__()
        self.heads = heads
        self.dh = dim // heads
        self.proj_q = nn.Linear(dim, dim)
        self.proj_k = nn.Linear(dim, dim)
        self.proj_v = nn.Linear(dim, dim)
        self.proj_o = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def fold(self, x):
        # (B, N, heads*dh) -> (heads*B, N, dh)
        return torch.cat(x.split(self.dh, dim=2), dim=0)

    def unfold(self, x, batch):
        return torch.cat(x.split(batch, dim=0), dim=2)

    def forward(self, nodes, linked=None):
        B = nodes.shape[0]
        q = self.fold(self.proj_q(nodes))
        k = self.fold(self.proj_k(nodes))
        v = self.fold(self.proj_v(nodes))

        energy = torch.bmm(q, k.transpose(1, 2)) / self.dh ** 0.5
        if linked is not None:
            linked = linked.repeat_interleave(self.heads, dim=0)
            energy = energy.masked_fill(~linked, float("-inf"))
        alpha = self.drop(energy.softmax(dim=2))

        out = self.unfold(torch.bmm(alpha, v), B)
        return self.proj_o(out)


class OutageNet(nn.Module):
    def __init__(self, features: int = 6, dim: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.att = nn.ModuleList(FeederAttention(dim, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.out = nn.Linear(dim, 1)

    def forward(self, measurements, linked):
        """measurements (B, N, features), linked (B, N, N) -> outage logit per station (B, N)"""
        h = self.inp(measurements)
        for att, norm in zip(self.att, self.norm):
            h = norm(h + att(h, linked))
        return self.out(h).squeeze(-1)
