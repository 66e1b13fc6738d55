"""Talking-heads attention (Shazeer et al., 2020) in a small language model.

Logits are mixed across heads before the softmax and weights after it.  The
causal mask is laid on after the first mixing.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TalkingHeads(nn.Module):
    def __init__(self, dim, heads, head_dim, softmax_heads):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        inner = heads * head_dim
        self.q = nn.Linear(dim, inner, bias=False)
        self.k = nn.Linear(dim, inner, bias=False)
        self.v = nn.Linear(dim, inner, bias=False)
        self.pre = nn.Parameter(torch.randn(softmax_heads, heads) * heads ** -0.5)
        self.post = nn.Parameter(torch.randn(heads, softmax_heads) * softmax_heads ** -0.5)
        self.o = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (f(x).view(b, n, self.heads, self.head_dim) for f in (self.q, self.k, self.v))
        logits = torch.einsum("bihd,bjhd->bhij", q, k) * self.head_dim ** -0.5
        logits = torch.einsum("gh,bhij->bgij", self.pre, logits)
        later = torch.arange(n, device=x.device)[None, :] > torch.arange(n, device=x.device)[:, None]
        logits = logits.masked_fill(later, torch.finfo(logits.dtype).min)
        w = logits.softmax(dim=-1)
        w = torch.einsum("hg,bgij->bhij", self.post, w)
        y = torch.einsum("bhij,bjhd->bihd", w, v)
        return self.o(y.reshape(b, n, -1))


class TalkingHeadsLM(nn.Module):
    def __init__(self, vocab=40, dim=24, heads=3, head_dim=8, softmax_heads=4, layers=2, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.1)
        self.attn = nn.ModuleList(TalkingHeads(dim, heads, head_dim, softmax_heads) for _ in range(layers))
        self.ffn = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
                                 for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * layers + 1))

    def forward(self, ids, targets=None):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        for i, (attn, ffn) in enumerate(zip(self.attn, self.ffn)):
            x = x + attn(self.norms[2 * i](x))
            x = x + ffn(self.norms[2 * i + 1](x))
        logits = self.norms[-1](x) @ self.tok.weight.t()
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
