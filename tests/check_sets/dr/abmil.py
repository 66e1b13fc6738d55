"""Attention-based deep multiple instance learning (Ilse, Tomczak & Welling, 2018),
gated variant, for whole-slide images.

A bag of patches h_1 .. h_K gets weights

    a_k = softmax_k( w^T ( tanh(V h_k) * sigmoid(U h_k) ) )

z = sum_k a_k h_k is the slide embedding and a linear classifier gives the logits. There
is no query and no scale: the score of a patch depends on this patch alone. With
`branches` > 1 each branch has its own w and its own classifier (as in CLAM-MB).

Bags of different size are packed one after the other:
    h     (total, F) patch features of all the bags
    sizes list of ints, patches per bag (each >= 1), sum(sizes) == total
returns
    logits (num_bags, branches)
    A      list of tensors (branches, size), the weights of each bag
"""
import torch
import torch.nn as nn


class GatedPool(nn.Module):
    def __init__(self, in_dim, hidden, branches=1):
        super().__init__()
        self.V = nn.Linear(in_dim, hidden)
        self.U = nn.Linear(in_dim, hidden)
        self.w = nn.Linear(hidden, branches)

    def forward(self, h):
        return self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h)))


class ABMIL(nn.Module):
    def __init__(self, in_dim=64, hidden=32, branches=2):
        super().__init__()
        self.pool = GatedPool(in_dim, hidden, branches)
        self.cls = nn.Parameter(torch.randn(branches, in_dim) / in_dim ** 0.5)
        self.bias = nn.Parameter(torch.zeros(branches))

    def forward(self, h, sizes):
        scores = self.pool(h)                                   # (total, branches)
        logits, A = [], []
        for hb, sb in zip(h.split(sizes), scores.split(sizes)):
            a = torch.softmax(sb, dim=0).t()                    # (branches, K)
            z = a @ hb                                          # (branches, F)
            logits.append((z * self.cls).sum(-1) + self.bias)
            A.append(a)
        return torch.stack(logits), A
