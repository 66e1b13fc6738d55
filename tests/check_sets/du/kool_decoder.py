"""One decoding step of "Attention, Learn to Solve Routing Problems!" (Kool et al. 2019).

First a multi-head glimpse over the nodes (eq. 5-6, context as the query), then a single-head
compatibility u_j = C * tanh(q . k_j / sqrt(d_h)), C = 10, and the softmax p over the nodes
(eq. 7-8).  Visited nodes get -inf in both.  Cut from my trainer; greedy tours were worse
than in the paper.
"""
import math

import torch
import torch.nn as nn


class TourStep(nn.Module):
    """
    nodes    (B, n, d)  node embeddings of the encoder
    context  (B, d_c)   [graph mean, last node, first node]
    visited  (B, n)     bool, True = already in the tour (not selectable); never all True
    returns  log p (B, n)
    """

    def __init__(self, d=128, d_c=384, heads=8, clip=10.0):
        super().__init__()
        self.h, self.clip = heads, clip
        self.W_nodes = nn.Linear(d, 3 * d, bias=False)      # glimpse K, glimpse V, logit K
        self.W_ctx = nn.Linear(d_c, d, bias=False)
        self.W_out = nn.Linear(d, d, bias=False)

    def precompute(self, nodes):
        return self.W_nodes(nodes).chunk(3, dim=-1)

    def forward(self, nodes, context, visited):
        gK, gV, lK = self.precompute(nodes)
        B, n, d = gK.shape
        dk = d // self.h
        q = self.W_ctx(context).view(B, self.h, 1, dk)
        K = gK.view(B, n, self.h, dk).permute(0, 2, 3, 1)   # (B, h, dk, n)
        V = gV.view(B, n, self.h, dk).permute(0, 2, 1, 3)
        u = torch.matmul(q, K) / math.sqrt(dk)              # (B, h, 1, n)
        u[visited[:, None, None, :].expand_as(u)] = -math.inf
        glimpse = torch.matmul(torch.softmax(u, dim=-1), V) # (B, h, 1, dk)
        glimpse = self.W_out(glimpse.reshape(B, d))
        logits = torch.einsum("bd,bnd->bn", glimpse, lK) / math.sqrt(d)
        logits = self.clip * torch.tanh(logits)
        logits = logits.masked_fill(visited, -math.inf)
        return torch.log_softmax(logits, dim=-1)
