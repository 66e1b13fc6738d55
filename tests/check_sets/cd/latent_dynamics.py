"""Autoregressive world model over discrete camera latents.

Training is teacher-forced: the block gets the whole sequence of embedded
latents and action tokens, and the output at position t predicts token t+1, so
position t may depend on positions 0..t only.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, n_head, dropout=0.0):
        super().__init__()
        self.n_head = n_head
        self.dropout = dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.q_norm = RMSNorm(dim // n_head)
        self.k_norm = RMSNorm(dim // n_head)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = self.q_norm(q.view(B, T, self.n_head, -1)).transpose(1, 2)
        k = self.k_norm(k.view(B, T, self.n_head, -1)).transpose(1, 2)
        v = v.view(B, T, self.n_head, -1).transpose(1, 2)
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LatentDynamics(nn.Module):
    def __init__(self, vocab=128, actions=8, dim=32, n_head=4, depth=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab + actions, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict(dict(
                n1=RMSNorm(dim), att=CausalSelfAttention(dim, n_head),
                n2=RMSNorm(dim), mlp=SwiGLU(dim, 2 * dim))))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        """ids [B, T] of the joint vocabulary -> logits [B, T, vocab]"""
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for l in self.layers:
            x = x + l["att"](l["n1"](x))
            x = x + l["mlp"](l["n2"](x))
        return self.head(self.norm(x))
