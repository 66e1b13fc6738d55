"""StreamingLLM style cache: the first few tokens ("sinks") stay for ever, and of the rest
only the newest ones are kept.

Keys are stored WITHOUT rotation.  At every step they are rotated by their place inside the
cache (0, 1, 2, ...), not by their place in the text, and so is the query, which gets the
place of the newest key.  Interleaved rotary pairs (2i, 2i+1), base 10000.
"""
import torch
from torch import nn


def spin(x, places):
    """x (.., n, d), places (n,)."""
    d = x.shape[-1]
    rate = 10000.0 ** (-torch.arange(0, d, 2).to(x.dtype) / d)
    ang = places.to(x.dtype)[:, None] * rate
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2).contiguous())
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2)


class SinkAttention(nn.Module):
    """step() eats one token (B, dim) and gives (B, dim).

    After a step the cache holds the first `sinks` tokens of the stream and the newest
    `recent` ones (the current token counts among these); the current token attends to all
    of them.  Before sinks + recent tokens have come, it simply holds everything.
    """

    def __init__(self, dim, heads, sinks=4, recent=8):
        super().__init__()
        assert dim % heads == 0 and sinks >= 0 and recent >= 1
        self.heads, self.sinks, self.recent = heads, sinks, recent
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)   # rows: all q, all k, all v
        self.out = nn.Linear(dim, dim, bias=False)
        self.reset()

    def reset(self):
        self.mem = None                                   # (2, B, H, n, d)

    def step(self, x):
        b, dim = x.shape
        q, k, v = self.qkv(x).view(b, 3, self.heads, -1).unbind(1)
        new = torch.stack((k, v)).unsqueeze(3)
        self.mem = new if self.mem is None else torch.cat((self.mem, new), dim=3)
        if self.mem.shape[3] > self.sinks + self.recent:
            tail = self.mem[:, :, :, -self.recent:]
            self.mem = torch.cat((self.mem[:, :, :, :self.sinks], tail), dim=3)
        keys, vals = self.mem
        n = keys.shape[2]
        keys = spin(keys, torch.arange(n))
        q = spin(q.unsqueeze(2), torch.tensor([n - 1]))
        logits = (q @ keys.mT) * (keys.shape[-1] ** -0.5)
        y = logits.softmax(dim=-1) @ vals
        return self.out(y.reshape(b, dim))
