"""Graphormer-style global attention on a batch of graphs of different size.

feat   (B, N, C)      node features, padded to the largest graph
spd    (B, N, N) int  shortest-path distance, clipped to max_dist (its own embedding)
deg    (B, N) int     node degree
exists (B, N) bool    True = node exists, False = padding; every graph has a node

Every node attends to all *existing* nodes of its graph; padding nodes are invisible.
logits = q k^T / sqrt(d) + b[spd]
"""
import torch
import torch.nn as nn


class GraphAttention(nn.Module):
    def __init__(self, C, heads, max_dist=8, max_degree=64, p_drop=0.0):
        super().__init__()
        self.heads, self.hd = heads, C // heads
        self.deg_emb = nn.Embedding(max_degree, C)
        self.spd_emb = nn.Embedding(max_dist + 1, heads)
        self.qkv = nn.Linear(C, 3 * C)
        self.out = nn.Linear(C, C)
        self.drop = nn.Dropout(p_drop)

    def forward(self, feat, spd, deg, exists):
        B, N, C = feat.shape
        h = feat + self.deg_emb(deg)
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        q = q.view(B, N, self.heads, self.hd).transpose(1, 2)
        k = k.view(B, N, self.heads, self.hd).permute(0, 2, 3, 1)
        v = v.view(B, N, self.heads, self.hd).transpose(1, 2)

        bias = self.spd_emb(spd).permute(0, 3, 1, 2)          # (B, heads, N, N)
        attn_mask = exists[:, None, None, :].to(bias.dtype)
        logits = q @ k / self.hd ** 0.5 + bias
        logits = logits + attn_mask
        w = self.drop(torch.softmax(logits, dim=-1))
        y = (w @ v).transpose(1, 2).reshape(B, N, C)
        return self.out(y) * exists.unsqueeze(-1)
