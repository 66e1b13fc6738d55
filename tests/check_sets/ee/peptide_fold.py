"""Which residues of the binding pocket does each residue of the peptide touch?

PeptidePocket(d, h)

forward(peptide, pocket, solved)
    peptide  (B, P, d)
    pocket   (B, R, d)
    solved   (B, R) bool   True = the residue is resolved in the crystal and may be
                           touched; False = missing density. At least one per sample
                           is resolved.
returns (B, P, d)

The h heads are slices of d / h features, folded into the batch (all samples of head 0,
then all of head 1, ...) the way the Set Transformer code does it; logits over
sqrt(d / h); softmax over the resolved residues of the SAME complex.
"""
import math

import torch
import torch.nn as nn


class PeptidePocket(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.fq = nn.Linear(d, d)
        self.fk = nn.Linear(d, d)
        self.fv = nn.Linear(d, d)
        self.fo = nn.Linear(d, d)

    def stack(self, t):
        return torch.cat(t.chunk(self.h, dim=2), dim=0)             # (h * B, L, d / h)

    def unstack(self, t):
        return torch.cat(t.chunk(self.h, dim=0), dim=2)

    def forward(self, peptide, pocket, solved):
        Q, K, V = self.stack(self.fq(peptide)), self.stack(self.fk(pocket)), self.stack(self.fv(pocket))
        touch = Q.bmm(K.transpose(1, 2)) / math.sqrt(Q.size(-1))    # (h * B, P, R)
        missing = ~solved.repeat_interleave(self.h, dim=0)
        touch = touch.masked_fill(missing.unsqueeze(1), -math.inf)
        A = touch.softmax(-1)
        O = self.unstack(A.bmm(V))
        return torch.relu(self.fo(O)) + peptide
