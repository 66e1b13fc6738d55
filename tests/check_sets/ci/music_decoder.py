"""Music token decoder: prefill a prompt, then decode with a KV cache and rotary positions."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def apply_rotary(x, positions, theta=10000.0):
    """x (B, H, T, d), interleaved pairs (0,1), (2,3), ..."""
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = positions.float()[:, None] * inv
    cos, sin = ang.cos(), ang.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, past=None):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        positions = torch.arange(T, device=x.device)
        q, k = apply_rotary(q, positions), apply_rotary(k, positions)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.ff(self.norm2(x)), (k, v)


class MusicDecoder(nn.Module):
    """tokens (B, T) -> logits (B, T, vocab) after reading the first ``prompt`` tokens in
    one prefill and the others one at a time; the same as reading all at once."""

    def __init__(self, vocab=30, dim=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def step(self, tokens, caches):
        x, new = self.emb(tokens), []
        for layer, past in zip(self.layers, caches):
            x, kv = layer(x, past)
            new.append(kv)
        return self.head(self.norm(x)), new

    def forward(self, tokens, prompt=4):
        logits, caches = self.step(tokens[:, :prompt], [None] * len(self.layers))
        out = [logits]
        for t in range(prompt, tokens.shape[1]):
            logits, caches = self.step(tokens[:, t:t + 1], caches)
            out.append(logits)
        return torch.cat(out, dim=1)
