"""Relation-aware self attention (Shaw et al. 2018), eq. (3) and (4)."""
import torch
from torch import nn


class RelationAware(nn.Module):
    def __init__(self, d_model, n_head, clip=16, p=0.1):
        super().__init__()
        self.n_head, self.d_z, self.clip = n_head, d_model // n_head, clip
        self.W = nn.Parameter(torch.empty(3, n_head, d_model, self.d_z))
        self.out = nn.Linear(n_head * self.d_z, d_model)
        self.a_K = nn.Embedding(2 * clip + 1, self.d_z)
        self.a_V = nn.Embedding(2 * clip + 1, self.d_z)
        self.drop = nn.Dropout(p)
        for w in self.W.unbind(0):
            for m in w.unbind(0):
                nn.init.xavier_uniform_(m.data)

    def forward(self, x, lengths=None):
        """x: (n, L, d_model); lengths: (n,) all >= 1, or None"""
        n, L, _ = x.shape
        q, k, v = torch.einsum("nld,ihdz->inhlz", x, self.W).unbind(0)

        pos = torch.arange(L, device=x.device)
        rel = (pos[None, :] - pos[:, None]).clamp(-self.clip, self.clip) + self.clip
        aK, aV = self.a_K(rel), self.a_V(rel)            # L L z

        e = torch.einsum("nhiz,nhjz->nhij", q, k)
        e = e + torch.einsum("nhiz,ijz->nhij", q, aK)
        e = e / self.d_z ** 0.5
        if lengths is not None:
            gone = pos[None, :] >= lengths[:, None]
            e = e.masked_fill(gone[:, None, None, :], float("-inf"))

        alpha = self.drop(e.softmax(dim=-1))
        z = torch.einsum("nhij,nhjz->nihz", alpha, v)
        z = z + torch.einsum("nhij,ijz->nihz", alpha, aV)
        return self.out(z.flatten(2))
