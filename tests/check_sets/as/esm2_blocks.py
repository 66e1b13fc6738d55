"""Protein language model blocks in the manner of ESM-2, with rotary embeddings.

Rotary convention of the checkpoints: half-split. Component c is paired with component
c + d/2, both turned by the angle pos * 10000 ** (-2c / d), c = 0 .. d/2 - 1.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)
        self._len, self._tables = 0, None

    def _update(self, x):
        n = x.shape[-2]
        if self._tables is None or n > self._len or self._tables[0].device != x.device:
            t = torch.arange(n, device=x.device).type_as(self.inv_freq)
            freqs = torch.outer(t, self.inv_freq)
            emb = freqs.repeat_interleave(2, dim=-1)
            self._tables, self._len = (emb.cos(), emb.sin()), n
        return [tab[:n].to(x.dtype) for tab in self._tables]

    def forward(self, q, k):
        cos, sin = self._update(k)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class EsmAttention(nn.Module):
    def __init__(self, embed_dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, embed_dim // heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))
        self.rot_emb = RotaryEmbedding(self.head_dim)

    def forward(self, x, padding_mask=None, need_head_weights=False):
        """x [B, T, E]; padding_mask [B, T] bool, True = <pad>."""
        B, T, E = x.shape
        sh = lambda t: t.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        q = sh(self.q_proj(x)) * self.head_dim**-0.5
        k, v = sh(self.k_proj(x)), sh(self.v_proj(x))
        q, k = self.rot_emb(q, k)
        w = q @ k.transpose(-1, -2)
        if padding_mask is not None:
            w = w.masked_fill(padding_mask[:, None, None, :], torch.finfo(w.dtype).min)
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        y = self.out_proj((w @ v).transpose(1, 2).reshape(B, T, E))
        return (y, w) if need_head_weights else (y, None)


class EsmLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.self_attn = EsmAttention(args.embed_dim, args.attention_heads)
        self.self_attn_layer_norm = nn.LayerNorm(args.embed_dim)
        self.fc1 = nn.Linear(args.embed_dim, args.ffn_embed_dim)
        self.fc2 = nn.Linear(args.ffn_embed_dim, args.embed_dim)
        self.final_layer_norm = nn.LayerNorm(args.embed_dim)

    def forward(self, x, padding_mask=None, need_head_weights=False):
        y, w = self.self_attn(self.self_attn_layer_norm(x), padding_mask, need_head_weights)
        x = x + y
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x)))), w


def apc(x):
    """Average product correction, used on the attention maps for contact prediction."""
    a1, a2, a12 = x.sum(-1, keepdim=True), x.sum(-2, keepdim=True), x.sum((-1, -2), keepdim=True)
    return x - a1 * a2 / a12


def symmetrize(x):
    return x + x.transpose(-1, -2)


def add_args(parser: argparse.ArgumentParser):
    parser.add_argument("--embed-dim", type=int, default=320)
    parser.add_argument("--attention-heads", type=int, default=20)
    parser.add_argument("--ffn-embed-dim", type=int, default=1280)
    return parser
