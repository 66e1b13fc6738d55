"""
FOLEY STREAM
footsteps, doors, cutlery -> the next frame of foley.

Every frame hears itself and the (reach - 1) frames before it, `reach` in all.
`forward` is for whole clips, `step` for the live desk: the latter keeps a ring
of the last `reach` keys and values.  There's no position code inside the
attention (the conv in front does that), so the order in the ring is irrelevant.
"""
import torch
from torch import nn


class Ring:
    def __init__(self, batch, heads, size, width, ref):
        self.k = ref.new_zeros(batch, heads, size, width)
        self.v = ref.new_zeros(batch, heads, size, width)
        self.size, self.seen = size, 0

    def push(self, k, v):
        slot = self.seen % self.size
        self.k[:, :, slot] = k
        self.v[:, :, slot] = v
        self.seen += 1

    def view(self):
        n = min(self.seen, self.size)
        return self.k[:, :, :n], self.v[:, :, :n]


def band(n, reach, device=None):
    """True where a frame may listen."""
    lag = torch.arange(n, device=device)[:, None] - torch.arange(n, device=device)[None, :]
    return (lag >= 0) & (lag < reach)


class FoleyStream(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 2, reach: int = 4):
        super().__init__()
        self.h, self.w, self.reach = heads, dim // heads, reach
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, dim * 2)
        self.o = nn.Linear(dim, dim)

    def _heads(self, t):
        return t.unflatten(-1, (self.h, self.w)).transpose(-3, -2)

    def forward(self, x):
        """x [B, T, dim] -> [B, T, dim]"""
        q = self._heads(self.q(x)) * self.w ** -0.5
        k, v = map(self._heads, self.kv(x).chunk(2, -1))
        s = q @ k.mT
        s = s.where(band(x.shape[1], self.reach, x.device), s.new_tensor(-torch.inf))
        y = s.softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))

    def start(self, batch, ref):
        return Ring(batch, self.h, self.reach, self.w, ref)

    @torch.no_grad()
    def step(self, frame, ring):
        """frame [B, dim] -> [B, dim]; the ring is changed."""
        x = frame[:, None]
        q = self._heads(self.q(x)) * self.w ** -0.5
        k, v = map(self._heads, self.kv(x).chunk(2, -1))
        ring.push(k[:, :, 0], v[:, :, 0])
        k, v = ring.view()
        y = (q @ k.mT).softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))[:, 0]


if __name__ == "__main__":
    net = FoleyStream()
    clip = torch.randn(1, 11, 16)
    ring = net.start(1, clip)
    live = torch.stack([net.step(f, ring) for f in clip.unbind(1)], 1)
    print((live - net(clip)).abs().max().item())
