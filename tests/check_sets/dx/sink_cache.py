"""StreamingLLM style attention (Xiao et al. 2023) for the endless game-narrator.

Keeps the first `sinks` tokens for ever and the newest `recent` tokens; what lies between is
thrown away. As in the paper, rotary positions are positions INSIDE THE CACHE and not in the
text: keys are stored unrotated, and at each step the cached keys get 0, 1, 2, ... and the new
token's query gets the position of its own key (the last one).

step(x): x is (B, dim), ONE new token for each of B streams; returns (B, dim).
The new token is put into the cache first and so always sees itself. reset() forgets all.
Rotation is the half-split kind: channel i turns with channel i + d/2.
"""
import torch
import torch.nn as nn


def turn(t, pos):
    """t: (B, H, n, d), pos: (n,)"""
    half = t.shape[-1] // 2
    rate = 10000.0 ** (-torch.arange(half, device=t.device) / half)
    a = pos[:, None] * rate[None, :]
    c, s = a.cos(), a.sin()
    x, y = t[..., :half], t[..., half:]
    return torch.cat((x * c - y * s, y * c + x * s), dim=-1)


class NarratorAttention(nn.Module):
    def __init__(self, dim=32, heads=4, sinks=2, recent=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.sinks, self.recent = sinks, recent
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.reset()

    def reset(self):
        self.K = self.V = None

    def remember(self, k, v):
        if self.K is None:
            self.K, self.V = k, v
            return
        K, V = torch.cat([self.K, k], 2), torch.cat([self.V, v], 2)
        if K.shape[2] > self.sinks + self.recent:
            # exactly one too many: the oldest one that is not a sink goes
            keep = [i for i in range(K.shape[2]) if i != self.sinks]
            K, V = K[:, :, keep], V[:, :, keep]
        self.K, self.V = K, V

    @torch.no_grad()
    def step(self, x):
        B = x.shape[0]
        q, k, v = self.qkv(x).view(B, 3, self.heads, 1, self.d).unbind(1)
        self.remember(k, v)
        n = self.K.shape[2]
        pos = torch.arange(n, device=x.device)
        q = turn(q, pos[-1:])
        s = q @ turn(self.K, pos).transpose(-1, -2) / self.d ** 0.5
        y = s.softmax(dim=-1) @ self.V
        return self.proj(y.reshape(B, -1))

    forward = step
