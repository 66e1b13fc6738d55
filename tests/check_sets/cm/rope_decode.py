"""Rotary decoder attention and greedy decoding for the log-completion model."""
import torch
import torch.nn as nn


def rotate(x, pos, base=10000.0):
    """Rotates neighbouring pairs (x0, x1), (x2, x3), ... of x (..., T, d) by their positions pos (T,)."""
    d = x.shape[-1]
    freq = base ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = pos.float()[:, None] * freq
    c, s = ang.cos(), ang.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


class TinyLM(nn.Module):
    """Single-layer causal LM. forward(ids (B, T), cache) -> (logits (B, T, V), cache).

    Decoding token by token with the cache gives the same logits as one full pass.
    """

    def __init__(self, vocab=40, dim=32, heads=2):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.emb = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, cache=None):
        B, T = ids.shape
        x = self.emb(ids)
        q, k, v = (t.view(B, T, self.heads, self.d).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        pos = torch.arange(T, device=ids.device)
        q, k = rotate(q, pos), rotate(k, pos)
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        S = k.shape[2]
        s = q @ k.transpose(-1, -2) / self.d ** 0.5
        s = s.masked_fill(torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1), -1e9)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1)
        return self.head(self.norm(x + self.o(y))), (k, v)


@torch.no_grad()
def greedy(model, prompt, steps=5):
    logits, cache = model(prompt)
    out = [prompt]
    for _ in range(steps):
        nxt = logits[:, -1:].argmax(-1)
        out.append(nxt)
        logits, cache = model(nxt, cache)
    return torch.cat(out, dim=1)
