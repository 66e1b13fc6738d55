"""Incremental decoder block with a per-session state (used by the demo bot)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SessionState:
    """What one conversation keeps between two calls for one layer."""

    __slots__ = ("k", "v", "pos")

    def __init__(self):
        self.k = None
        self.v = None
        self.pos = 0

    def extend(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat((self.k, k), dim=2)
            self.v = torch.cat((self.v, v), dim=2)
        return self.k, self.v


class Rotary(nn.Module):
    """GPT-NeoX layout: dimension i is paired with dimension i + d/2."""

    def __init__(self, dim, base=10000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, x, positions):
        ang = positions[:, None].float() * self.inv
        cos, sin = ang.cos(), ang.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x.dtype)


class ChatAttention(nn.Module):
    """Causal rotary attention.

    ``forward(x)`` handles a full sequence; ``forward(x, state)`` handles the
    next piece (prompt, then generated tokens one or several at a time) and
    gives the same rows as the full sequence would.
    """

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.rot = Rotary(width // heads)

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, state=None):
        n = x.shape[1]
        state = SessionState() if state is None else state
        where = torch.arange(state.pos, state.pos + n, device=x.device)
        q = self.rot(self._split(self.q(x)), where)
        k, v = (self._split(t) for t in self.kv(x).chunk(2, dim=-1))
        k, v = state.extend(self.rot(k, where), v)
        state.pos += 1
        total = k.shape[2]
        rows = torch.arange(total - n, total, device=x.device)
        keep = rows[:, None] >= torch.arange(total, device=x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o(y.transpose(1, 2).flatten(2))


class ChatBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.att = ChatAttention(width, heads)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, x, state=None):
        x = x + self.att(self.n1(x), state)
        return x + self.down(F.silu(self.up(self.n2(x))))


@torch.no_grad()
def generate(blocks, embed, prompt, steps):
    states = [SessionState() for _ in blocks]
    ids, feed = list(prompt), torch.tensor([prompt])
    for _ in range(steps):
        h = embed(feed)
        for blk, st in zip(blocks, states):
            h = blk(h, st)
        nxt = int((h[0, -1] @ embed.weight.T).argmax())
        ids.append(nxt)
        feed = torch.tensor([[nxt]])
    return ids
