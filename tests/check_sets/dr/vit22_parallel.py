"""Parallel Transformer block for image encoders (ViT-22B flavour).

The attention branch and the MLP branch read the same normalised tokens and are
added to the residual stream together:

    y = x + g1 * Attn(LN(x)) + g2 * MLP(LN(x))

* one fused input projection produces q, k, v and the hidden MLP activations;
* q and k get their own LayerNorm over the head dimension (shared by the heads)
  before the usual 1/sqrt(head_dim) scaled dot product;
* no biases in the fused projection;
* attention is bidirectional over all the patches, there is no mask.

x: (batch, patches, dim) -> (batch, patches, dim)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ParallelBlock(nn.Module):
    def __init__(self, dim=192, heads=6, mlp_ratio=4.0, attn_drop=0.0, init_scale=1e-1):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.head_dim = dim // heads
        hidden = int(dim * mlp_ratio)
        self.sizes = [dim, dim, dim, hidden]

        self.norm = nn.LayerNorm(dim)
        self.in_proj = nn.Linear(dim, sum(self.sizes), bias=False)
        self.q_norm = nn.LayerNorm(self.head_dim)
        self.k_norm = nn.LayerNorm(self.head_dim)
        self.attn_out = nn.Linear(dim, dim)
        self.mlp_out = nn.Linear(hidden, dim)
        self.attn_drop = attn_drop
        self.g1 = nn.Parameter(torch.full((dim,), init_scale))
        self.g2 = nn.Parameter(torch.full((dim,), init_scale))

    def _heads(self, t):
        # B N (h d) -> B h N d
        return t.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def forward(self, x):
        h = self.norm(x)
        q, k, v, m = self.in_proj(h).split(self.sizes, dim=-1)
        q = self.q_norm(self._heads(q))
        k = self.k_norm(self._heads(k))
        v = self._heads(v)
        a = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.attn_drop if self.training else 0.0)
        a = a.transpose(1, 2).flatten(2)
        return x + self.g1 * self.attn_out(a) + self.g2 * self.mlp_out(F.gelu(m))
