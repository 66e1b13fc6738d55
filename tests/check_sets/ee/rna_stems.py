"""RNA secondary structure: nucleotides look for partners to form stems.

StemFinder(d, h)

forward(nt, length)
    nt      (B, L, d)    embedded nucleotides, padded at the end
    length  (B,) long    number of nucleotides of each molecule (>= 1)
returns
    out     (B, L, d)
    pairs   (B, h, L, L) probability that i (row) looks at j (column): each row sums to 1
                         over the nucleotides of the molecule, padding columns are 0

Head n works on the features n*e .. (n+1)*e-1 of q, k and v, e = d / h, for each nucleotide,
logits q_i.k_j / sqrt(e).  Rows of padding are arbitrary.
"""
import torch
import torch.nn as nn


class StemFinder(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.e = h, d // h
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)

    def by_head(self, t):
        B, L, _ = t.shape
        return t.contiguous().view(B, self.h, L, self.e)

    def forward(self, nt, length):
        B, L, d = nt.shape
        q, k, v = self.by_head(self.q(nt)), self.by_head(self.k(nt)), self.by_head(self.v(nt))
        pairs = q.matmul(k.transpose(2, 3)) / self.h ** 0.5
        exists = torch.arange(L, device=nt.device)[None, :] < length[:, None]
        pairs = pairs.softmax(dim=3)
        pairs = pairs * exists[:, None, None, :]
        out = pairs.matmul(v).transpose(1, 2).reshape(B, L, d)
        return self.o(out), pairs
