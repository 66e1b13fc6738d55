"""Endless generation with attention sinks (StreamingLLM).

Cache policy: the first `n_sink` tokens are kept for ever, plus the most recent `n_recent`
tokens (the current one included).  Positions for the rotary embedding are places INSIDE
THE CACHE, not places in the text, so keys are kept unrotated and are rotated afresh at
every step.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def inv_freq(dim, base=10000.0):
    return base ** -(torch.arange(0, dim, 2).float() / dim)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rotary(x, pos, freqs):
    ang = pos[:, None].to(freqs) * freqs[None]
    ang = torch.cat((ang, ang), dim=-1)
    return x * ang.cos().to(x.dtype) + rotate_half(x) * ang.sin().to(x.dtype)


class SinkRing:
    """Storage: n_sink fixed slots and a ring of n_recent slots; layout (batch, heads, slot, dim)."""

    def __init__(self, n_sink, n_recent):
        self.n_sink, self.n_recent = n_sink, n_recent
        self.seen = 0
        self.k = self.v = None

    def push(self, k, v):
        if self.k is None:
            b, h, _, d = k.shape
            self.k = k.new_zeros(b, h, self.n_sink + self.n_recent, d)
            self.v = torch.zeros_like(self.k)
        if self.seen < self.n_sink:
            slot = self.seen
        else:
            slot = self.n_sink + (self.seen - self.n_sink) % self.n_recent
        self.k[:, :, slot] = k[:, :, 0]
        self.v[:, :, slot] = v[:, :, 0]
        self.seen += 1

    def ordered(self):
        """Keys and values from the oldest to the newest token."""
        if self.seen <= self.n_sink + self.n_recent:
            idx = torch.arange(self.seen)
        else:
            oldest = (self.seen - self.n_sink) % self.n_recent
            ring = (torch.arange(self.n_recent) + oldest) % self.n_recent
            idx = torch.cat((torch.arange(self.n_sink), self.n_sink + ring))
        return self.k[:, :, idx], self.v[:, :, idx]


class SinkAttention(nn.Module):
    def __init__(self, dim, n_heads, n_sink=4, n_recent=60):
        super().__init__()
        self.n_heads, self.d = n_heads, dim // n_heads
        self.n_sink, self.n_recent = n_sink, n_recent
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.register_buffer("freqs", inv_freq(self.d), persistent=False)

    def new_cache(self):
        return SinkRing(self.n_sink, self.n_recent)

    def forward(self, x, cache):
        """x (batch, 1, dim): one new token of every stream."""
        b = x.shape[0]
        q = self.q(x).view(b, 1, self.n_heads, self.d).transpose(1, 2)
        k = self.k(x).view(b, 1, self.n_heads, self.d).transpose(1, 2)
        v = self.v(x).view(b, 1, self.n_heads, self.d).transpose(1, 2)
        cache.push(k, v)
        keys, values = cache.ordered()
        n = keys.shape[2]
        places = torch.arange(n, device=x.device)
        keys = apply_rotary(keys, places, self.freqs)
        q = apply_rotary(q, places[-1:], self.freqs)
        # nothing to mask: whatever is in the cache is in the past
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.o(y.transpose(1, 2).reshape(b, 1, -1))


class StreamBlock(nn.Module):
    def __init__(self, dim, n_heads, **policy):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attn = SinkAttention(dim, n_heads, **policy)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, cache):
        x = x + self.attn(self.n1(x), cache)
        return x + self.down(F.silu(self.up(self.n2(x))))


class StreamLM(nn.Module):
    def __init__(self, vocab=128, dim=64, n_heads=4, depth=2, **policy):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(StreamBlock(dim, n_heads, **policy) for _ in range(depth))
        self.norm = nn.RMSNorm(dim)

    @torch.inference_mode()
    def stream(self, first, n):
        caches = [blk.attn.new_cache() for blk in self.blocks]
        tok, out = first, []
        for _ in range(n):
            x = self.emb(tok)[:, None]
            for blk, c in zip(self.blocks, caches):
                x = blk(x, c)
            tok = (self.norm(x[:, 0]) @ self.emb.weight.T).argmax(-1)
            out.append(tok)
        return torch.stack(out, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = StreamLM(n_sink=2, n_recent=6)
    print(lm.stream(torch.tensor([1, 2]), 20))
