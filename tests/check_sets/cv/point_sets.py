import torch
from torch import nn


class MAB(nn.Module):
    """Multihead attention block: rFF and residuals around nn.MultiheadAttention (post-norm)."""

    def __init__(self, d, h):
        super().__init__()
        self.att = nn.MultiheadAttention(d, h, batch_first=True)
        self.n0, self.n1 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, d), nn.ReLU())

    def forward(self, X, Y, keep=None):
        drop = ~keep if keep is not None else None
        H = self.n0(X + self.att(X, Y, Y, key_padding_mask=drop, need_weights=False)[0])
        return self.n1(H + self.ff(H))


class JetTagger(nn.Module):
    """Set transformer for particle jets: embed -> ISAB -> PMA.

    particles (B, N, feat), keep (B, N) bool: True for a real particle (each jet has one at least).
    Returns (B, seeds, d). Invariant under a permutation of the particles, and padded
    particles have no influence.
    """

    def __init__(self, feat=6, d=32, h=4, m=7, seeds=2):
        super().__init__()
        self.emb = nn.Linear(feat, d)
        self.I = nn.Parameter(torch.empty(1, m, d))
        self.S = nn.Parameter(torch.empty(1, seeds, d))
        nn.init.xavier_uniform_(self.I)
        nn.init.xavier_uniform_(self.S)
        self.down, self.up, self.pool = MAB(d, h), MAB(d, h), MAB(d, h)

    def isab(self, X, keep):
        hid = self.down(self.I.expand(len(X), -1, -1), X, keep)   # m points look at the set
        return self.up(X, hid)                                    # no padding among the m points

    def forward(self, particles, keep=None):
        X = self.isab(self.emb(particles), keep)
        return self.pool(self.S.expand(len(X), -1, -1), X, keep)
