"""A small protein language model after ESM-2 (Lin et al., 2023), masked-LM only.

Encoder with rotary embeddings on queries and keys, GELU feed forward, pre-LN.
Sequences are padded with <pad> = 1. Trained from scratch on UniRef50 clusters < 256 aa
(no ESM checkpoint is loaded).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 1


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    """Su et al. 2021: each pair of channels turns by pos * base^(-2i/d)."""

    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, q, k):
        t = torch.arange(q.shape[-2], device=q.device).type_as(self.inv_freq)
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        cos, sin = emb.cos(), emb.sin()
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.rot = RotaryEmbedding(self.head_dim)

    def forward(self, x, padding):
        B, L, D = x.shape
        shape = (B, L, self.heads, self.head_dim)
        q = self.q_proj(x).view(shape).transpose(1, 2) * self.head_dim ** -0.5
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        q, k = self.rot(q, k)
        attn = torch.matmul(q, k.transpose(2, 3))
        attn = attn.masked_fill(padding[:, None, None, :], float("-inf"))
        attn = F.softmax(attn, dim=-1)
        y = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, L, D)
        return self.out_proj(y)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, padding):
        x = x + self.attn(self.ln1(x), padding)
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class ESMMini(nn.Module):
    def __init__(self, vocab=33, dim=48, heads=3, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(layers)])
        self.ln = nn.LayerNorm(dim)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, tokens):
        padding = tokens.eq(PAD)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, padding)
        return F.linear(self.ln(x), self.embed.weight, self.bias)
