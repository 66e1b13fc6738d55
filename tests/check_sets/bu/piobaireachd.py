"""piobaireachd: ornaments (grace notes) for Highland bagpipe melodies.

Rotary positions, half-split layout; the cache holds rotated keys.  A melody fed
note by note with a cache gives the same result as the melody fed in one piece.
"""
import math
import torch
from torch import nn
from typing import Dict, Optional

CHANTER = ["LG", "LA", "B", "C", "D", "E", "F", "HG", "HA"]
GRACES = ["-", "G", "D", "E", "birl", "doubling", "throw", "grip", "taorluath"]


class Rotor(nn.Module):
    def __init__(self, width: int, longest: int = 256, base: float = 1e4):
        super().__init__()
        inv = base ** (-torch.arange(0, width, 2) / width)
        ang = torch.arange(longest)[:, None] * inv[None]
        self.register_buffer("cos", ang.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", ang.sin().repeat(1, 2), persistent=False)

    def forward(self, t: torch.Tensor, start: int = 0) -> torch.Tensor:
        n = t.shape[-2]
        c, s = self.cos[start:start + n].to(t), self.sin[start:start + n].to(t)
        a, b = t.chunk(2, -1)
        return t * c + torch.cat((-b, a), -1) * s


class GraceNoteAttention(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 2):
        super().__init__()
        self.heads, self.w = heads, dim // heads
        self.inp = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.rotor = Rotor(self.w)

    def forward(self, x, drone: Optional[Dict[str, torch.Tensor]] = None):
        """x (B, T, dim); drone: the cache, a dict that is filled in place."""
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.heads, self.w).transpose(1, 2) for t in self.inp(x).chunk(3, -1))
        past = drone["k"].shape[2] if drone else 0
        q = self.rotor(q)
        k = self.rotor(k, past)
        if drone is not None:
            if past:
                k = torch.cat((drone["k"], k), 2)
                v = torch.cat((drone["v"], v), 2)
            drone["k"], drone["v"] = k, v
        score = q @ k.transpose(2, 3) / math.sqrt(self.w)
        ahead = torch.arange(k.shape[2], device=x.device) > torch.arange(past, past + T, device=x.device)[:, None]
        score = score.masked_fill(ahead, -math.inf)
        y = score.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, D))


class Piper(nn.Module):
    def __init__(self, dim: int = 16):
        super().__init__()
        self.note = nn.Embedding(len(CHANTER), dim)
        self.att = GraceNoteAttention(dim)
        self.grace = nn.Linear(dim, len(GRACES))

    def forward(self, notes, drone=None):
        h = self.note(notes)
        return self.grace(h + self.att(h, drone))

    @torch.no_grad()
    def play(self, notes):
        drone: Dict[str, torch.Tensor] = {}
        return [GRACES[int(self(n.view(1, 1), drone).argmax())] for n in notes]


if __name__ == "__main__":
    print(Piper().play(torch.randint(0, len(CHANTER), (8,))))
