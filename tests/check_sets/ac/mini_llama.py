import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Rotary(nn.Module):
    def __init__(self, head_dim, base=10000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, positions):
        ang = positions[:, None].float() * self.inv_freq[None, :]
        ang = torch.cat([ang, ang], dim=-1)
        return ang.cos(), ang.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class Attention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.rope = Rotary(self.head_dim)

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=-1)
        q, k, v = (t.view(B, T, self.n_heads, self.head_dim).transpose(1, 2) for t in (q, k, v))

        pos = torch.arange(T, device=x.device)
        cos, sin = self.rope(pos)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin

        if past is not None:
            # keys in the cache are already rotated
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)

        att = (q @ k.transpose(-2, -1)) * self.head_dim ** -0.5
        if T > 1:
            causal = torch.ones(T, S, dtype=torch.bool, device=x.device).tril()
            att = att.masked_fill(~causal, float("-inf"))
        att = F.softmax(att.float(), dim=-1).type_as(q)
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.out(y), (k, v)


class Block(nn.Module):
    def __init__(self, dim, n_heads, hidden):
        super().__init__()
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.attn = Attention(dim, n_heads)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x, past=None):
        a, present = self.attn(self.n1(x), past)
        x = x + a
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h)), present


class MiniLlama(nn.Module):
    """Decoder-only LM. Call it with the whole prompt, or with the prompt in
    pieces and the cache returned by the previous call; the logits are the same."""

    def __init__(self, vocab, dim=64, n_layers=2, n_heads=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Block(dim, n_heads, 3 * dim) for _ in range(n_layers)])
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, cache=None):
        cache = cache or [None] * len(self.layers)
        x, new = self.tok(ids), []
        for layer, past in zip(self.layers, cache):
            x, present = layer(x, past)
            new.append(present)
        return self.head(self.norm(x)), new
