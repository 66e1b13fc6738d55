# -*- coding: utf-8 -*-
"""
Attention-based deep MIL (Ilse et al., ICML 2018) to grade transient candidates
from a bag of difference-image stamps. Gated variant, several attention branches.

Bags are ragged: they arrive concatenated, stamps [sum n_i, 1, h, w] + sizes [B].
"""
import torch
import torch.nn as nn


class StampEncoder(nn.Module):

    def __init__(self, out_dim):
        super(StampEncoder, self).__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(64, out_dim), nn.ReLU(),
        )

    def forward(self, x):
        return self.net(x)


class GatedAttentionPool(nn.Module):
    """a = softmax_k( w^T (tanh(V h_k) * sigm(U h_k)) ) within each bag, z = sum_k a_k h_k

    Eq. 9 of the paper. n_branches > 1 gives that many independent poolings
    which are concatenated: [B, n_branches * dim].
    """

    def __init__(self, dim, hidden, n_branches=1):
        super(GatedAttentionPool, self).__init__()
        self.V = nn.Linear(dim, hidden)
        self.U = nn.Linear(dim, hidden)
        self.w = nn.Linear(hidden, n_branches)

    def forward(self, h, sizes):
        logits = self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h)))      # [M, A]
        pooled, weights = [], []
        for hi, li in zip(h.split(sizes.tolist()), logits.split(sizes.tolist())):
            a = torch.softmax(li, dim=0)                   # over the instances of this bag
            pooled.append((a.t() @ hi).reshape(-1))
            weights.append(a)
        return torch.stack(pooled), torch.cat(weights)


class TransientMIL(nn.Module):

    def __init__(self, dim=32, hidden=16, n_branches=2, n_classes=2, dropout=0.25):
        super(TransientMIL, self).__init__()
        self.encoder = StampEncoder(dim)
        self.pool = GatedAttentionPool(dim, hidden, n_branches)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(dim * n_branches, n_classes))

    def forward(self, stamps, sizes):
        h = self.encoder(stamps)
        z, a = self.pool(h, sizes)
        return self.classifier(z), a
