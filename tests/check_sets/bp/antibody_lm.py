"""Masked language model for antibody chains (ESM-2 like encoder, rotary positions)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = ["<pad>", "<cls>", "<eos>", "<mask>"] + list("LAGVSERTIDPKQNFYMHWC") + ["X"]
TOK = {a: i for i, a in enumerate(ALPHABET)}


def encode(seq: str) -> torch.Tensor:
    ids = [TOK["<cls>"]] + [TOK.get(a, TOK["X"]) for a in seq] + [TOK["<eos>"]]
    return torch.tensor(ids)


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    """Rotates q and k so that their product depends on the distance of the residues only."""

    def __init__(self, dim: int, base: float = 10000.0):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def tables(self, n, like):
        t = torch.arange(n, device=like.device).type_as(self.inv_freq)
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos()[None, None].to(like.dtype), emb.sin()[None, None].to(like.dtype)

    def forward(self, q, k):
        cos, sin = self.tables(q.shape[-2], q)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class ChainAttention(nn.Module):
    """x (B, T, C), padding_mask (B, T) bool with True on <pad>."""

    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.rot_emb = RotaryEmbedding(self.head_dim)

    def forward(self, x, padding_mask=None):
        B, T, C = x.shape
        split = lambda t: t.view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        q, k = self.rot_emb(q, k)
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.head_dim ** -0.5
        if padding_mask is not None:
            scores = scores.masked_fill(padding_mask[:, None, None, :], float("-inf"))
        probs = F.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(B, T, C)
        return self.out_proj(out)


class AntibodyLM(nn.Module):
    def __init__(self, dim=64, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), dim, padding_idx=0)
        self.attn = nn.ModuleList(ChainAttention(dim, heads) for _ in range(depth))
        self.ln_a = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.ln_f = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)
        )
        self.final = nn.LayerNorm(dim)

    def forward(self, tokens):
        pad = tokens.eq(0)
        x = self.embed(tokens)
        for a, la, f, lf in zip(self.attn, self.ln_a, self.ff, self.ln_f):
            x = x + a(la(x), pad)
            x = x + f(lf(x))
        return F.linear(self.final(x), self.embed.weight)
