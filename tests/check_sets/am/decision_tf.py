"""Decision Transformer for offline RL: (return-to-go, state, action) triples, GPT-like trunk."""
import math

import torch
import torch.nn as nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, pdrop=0.1):
        super().__init__()
        assert n_embd % n_head == 0
        self.key = nn.Linear(n_embd, n_embd)
        self.query = nn.Linear(n_embd, n_embd)
        self.value = nn.Linear(n_embd, n_embd)
        self.attn_drop = nn.Dropout(pdrop)
        self.resid_drop = nn.Dropout(pdrop)
        self.proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size, dtype=torch.bool)))
        self.n_head = n_head

    def forward(self, x, pad):
        """pad: (B, T) bool, True for tokens before the beginning of the episode (left padding)."""
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        visible = self.mask[:T, :T] & ~pad[:, None, None, :]
        att = att.masked_fill(~visible, torch.finfo(att.dtype).min)
        att = F.softmax(att, dim=-1)
        y = self.attn_drop(att) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.proj(y))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd),
                                 nn.Dropout(0.1))

    def forward(self, x, pad):
        x = x + self.attn(self.ln1(x), pad)
        return x + self.mlp(self.ln2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, s_dim, a_dim, n_embd=64, n_head=4, n_layer=2, K=20, max_ep=1000):
        super().__init__()
        self.K = K
        self.e_t = nn.Embedding(max_ep, n_embd)
        self.e_r = nn.Linear(1, n_embd)
        self.e_s = nn.Linear(s_dim, n_embd)
        self.e_a = nn.Linear(a_dim, n_embd)
        self.ln = nn.LayerNorm(n_embd)
        self.blocks = nn.ModuleList([Block(n_embd, n_head, 3 * K) for _ in range(n_layer)])
        self.head = nn.Sequential(nn.Linear(n_embd, a_dim), nn.Tanh())

    def forward(self, rtg, s, a, t, valid):
        """rtg (B,K,1) s (B,K,S) a (B,K,A) t (B,K) valid (B,K): 1 = real step"""
        B, K = t.shape
        te = self.e_t(t)
        x = torch.stack([self.e_r(rtg) + te, self.e_s(s) + te, self.e_a(a) + te], 2).view(B, 3 * K, -1)
        pad = (valid == 0).repeat_interleave(3, dim=1)
        x = self.ln(x)
        for b in self.blocks:
            x = b(x, pad)
        # the action is predicted from the state token
        return self.head(x.view(B, K, 3, -1)[:, :, 1])

    def loss(self, pred, a, valid):
        m = valid.float().unsqueeze(-1)
        return (((pred - a) ** 2) * m).sum() / (m.sum() * a.shape[-1])
