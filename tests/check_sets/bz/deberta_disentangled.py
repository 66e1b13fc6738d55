"""Disentangled self-attention (DeBERTa, He et al. 2021), reading copy for the lab seminar.

    A(i, j) = Qc_i . Kc_j  +  Qc_i . Kr_{d(i,j)}  +  Kc_j . Qr_{d(j,i)}
    H       = softmax(A / sqrt(3 d)) Vc

with d(i, j) = clamp(i - j + k, 0, 2k - 1), k = `max_relative`.  The factor is 3 d because three
terms are added.  Position projections are shared with the content ones when
`share_att_key` is set (as in DeBERTa-v2), else they have their own weights.
"""
import torch
from torch import nn


class DisentangledSelfAttention(nn.Module):
    def __init__(self, hidden: int, heads: int, max_relative: int, share_att_key: bool = False):
        super().__init__()
        self.heads, self.d, self.k = heads, hidden // heads, max_relative
        self.query_proj = nn.Linear(hidden, hidden)
        self.key_proj = nn.Linear(hidden, hidden)
        self.value_proj = nn.Linear(hidden, hidden)
        self.share = share_att_key
        if not share_att_key:
            self.pos_key_proj = nn.Linear(hidden, hidden, bias=False)
            self.pos_query_proj = nn.Linear(hidden, hidden)
        self.rel_embeddings = nn.Parameter(torch.randn(2 * max_relative, hidden) * 0.5)

    def shape(self, x):
        return x.unflatten(-1, (self.heads, self.d)).transpose(-3, -2)

    def forward(self, x, attention_mask=None):
        """x (B, L, hidden); attention_mask (B, L), nonzero for real tokens."""
        L = x.size(1)
        qc, kc, vc = (self.shape(p(x)) for p in (self.query_proj, self.key_proj, self.value_proj))
        pk = self.key_proj if self.share else self.pos_key_proj
        pq = self.query_proj if self.share else self.pos_query_proj
        kr = self.shape(pk(self.rel_embeddings))        # (H, 2k, d)
        qr = self.shape(pq(self.rel_embeddings))

        t = torch.arange(L, device=x.device)
        delta = (t[:, None] - t[None, :] + self.k).clamp(0, 2 * self.k - 1)   # d(i, j)
        index = delta.expand(x.size(0), self.heads, L, L)

        scale = (3 * self.d) ** 0.5
        c2c = qc @ kc.transpose(-1, -2)
        c2p = torch.gather(qc @ kr.transpose(-1, -2), -1, index)
        # row j of (kc @ qr^T) holds Kc_j . Qr_m; gather m = d(j, i), then put i first
        p2c = torch.gather(kc @ qr.transpose(-1, -2), -1, index).transpose(-1, -2)
        scores = (c2c + c2p + p2c) / scale

        if attention_mask is not None:
            scores = scores.masked_fill(attention_mask[:, None, None, :] == 0, float("-inf"))
        probs = scores.softmax(-1)
        return (probs @ vc).transpose(1, 2).flatten(2)


if __name__ == "__main__":
    m = DisentangledSelfAttention(24, 3, max_relative=4)
    print(m(torch.randn(2, 7, 24)).shape)
