import torch
import torch.nn as nn


class RotaryEmbedding(nn.Module):
    """Interleaved rotary embedding: pairs are (0, 1), (2, 3), ..."""

    def __init__(self, dim, theta=10000.0):
        super().__init__()
        self.register_buffer("freq", theta ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, positions):
        ang = positions[:, None].float() * self.freq
        c, s = ang.cos(), ang.sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class NucleotideAttention(nn.Module):
    """Causal attention for base-by-base sampling of DNA.

    x is (B, L, dim). Pass `past=(k, v)` to continue a sequence; the result is the same
    as running the whole sequence at once. Returns (y, (k, v)).
    """

    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)
        self.rope = RotaryEmbedding(self.hd)

    def forward(self, x, past=None):
        B, L, D = x.shape
        q, k, v = self.to_qkv(x).view(B, L, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4).unbind(0)
        pos = torch.arange(L, device=x.device)
        q, k = self.rope(q, pos), self.rope(k, pos)
        if past is not None:
            k = torch.cat((past[0], k), dim=-2)
            v = torch.cat((past[1], v), dim=-2)
        S = k.shape[-2]
        seen = torch.arange(S, device=x.device)[None, :] <= torch.arange(S - L, S, device=x.device)[:, None]
        w = torch.einsum("bhid,bhjd->bhij", q, k) * self.hd ** -0.5
        w = w.masked_fill(~seen, float("-inf")).softmax(-1)
        y = torch.einsum("bhij,bhjd->bihd", w, v).reshape(B, L, D)
        return self.to_out(y), (k, v)


class DNASampler(nn.Module):
    """Logits of the next base; `past` is a list with one entry per layer."""

    def __init__(self, dim=32, heads=2, layers=2):
        super().__init__()
        self.base = nn.Embedding(5, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.layers = nn.ModuleList(NucleotideAttention(dim, heads) for _ in range(layers))
        self.lm = nn.Linear(dim, 5)

    def forward(self, bases, past=None):
        x = self.base(bases)
        new = []
        for i, (n, layer) in enumerate(zip(self.norms, self.layers)):
            y, kv = layer(n(x), None if past is None else past[i])
            x = x + y
            new.append(kv)
        return self.lm(x), new
