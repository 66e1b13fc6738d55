"""Tied row attention over a multiple sequence alignment (as in the MSA Transformer).

All homologues of a family fold alike, so they share ONE map of column contacts.

TiedRows(d, h):  d features per residue, h heads.

forward(msa, real)
    msa   (C, R, B, d)   alignment column first, then homologue, family, feature
    real  (B, C) bool    True = alignment column exists, False = padding at the end.
                         All R homologues are real. Column 0 always exists.
returns
    out   (C, R, B, d)
    map   (B, h, C, C)   map[b, n, i, :] sums to 1 over the existing columns j

Logit of column i for column j: the sum over the homologues r of q[i,r].k[j,r],
divided by sqrt(R * d_head), where R is the number of homologues.
"""
import math

import torch
import torch.nn as nn


class TiedRows(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        assert d % h == 0
        self.h = h
        self.wq, self.wk, self.wv = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.gate = nn.Linear(d, d)
        self.wo = nn.Linear(d, d)
        nn.init.constant_(self.gate.bias, 1.0)

    def heads(self, t):
        return t.unflatten(-1, (self.h, -1))            # C R B h e

    def forward(self, msa, real):
        q, k, v = (self.heads(f(msa)) for f in (self.wq, self.wk, self.wv))
        R, e = q.shape[1], q.shape[-1]
        contact = torch.einsum("irbne,jrbne->bnij", q, k) / math.sqrt(R * e)
        contact = contact.masked_fill(~real[:, None, None, :], -torch.inf)
        cmap = contact.softmax(dim=3)
        read = torch.einsum("bnij,jrbne->irbne", cmap, v).flatten(-2)
        return self.wo(torch.sigmoid(self.gate(msa)) * read), cmap
