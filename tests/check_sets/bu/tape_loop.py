"""
tape_loop
---------
A delay pedal that learned: attention over the last `inches` of tape.

The tape is of finite length: once it is full, the oldest key/value pair falls off
at every step, and a frame hears itself and at most inches - 1 earlier frames.
Frames are fed one by one (`x` is a single frame).
"""
import torch
import torch.nn as nn


class Tape:
    __slots__ = ("k", "v")

    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.size(2)


class TapeLoop(nn.Module):
    def __init__(self, dim=12, heads=3, inches=5, wet=0.5):
        super().__init__()
        self.heads = heads
        self.inches = inches
        self.wet = wet
        self.record = nn.Linear(dim, 2 * dim, bias=False)
        self.play = nn.Linear(dim, dim, bias=False)
        self.amp = nn.Linear(dim, dim, bias=False)

    def _h(self, t):
        b, n, d = t.shape
        return t.view(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3)

    def _roll(self, tape, k, v):
        if len(tape):
            k = torch.cat([tape.k, k], dim=2)
            v = torch.cat([tape.v, v], dim=2)
        if k.size(2) > self.inches:
            k = k[:, :, -self.inches:]
            v = v[:, :, :self.inches]
        tape.k, tape.v = k, v
        return k, v

    def forward(self, x, tape):
        """x (B, 1, dim), tape: Tape -> (B, 1, dim)"""
        q = self._h(self.play(x))
        k, v = self._roll(tape, *map(self._h, self.record(x).chunk(2, dim=-1)))
        s = q.matmul(k.transpose(-1, -2)).div(q.size(-1) ** 0.5)
        y = s.softmax(-1).matmul(v).permute(0, 2, 1, 3).flatten(2)
        return (1 - self.wet) * x + self.wet * self.amp(y)


class Pedalboard(nn.Module):
    def __init__(self, dim=12, pedals=2):
        super().__init__()
        self.pedals = nn.ModuleList(TapeLoop(dim) for _ in range(pedals))

    def forward(self, frames):
        """frames (B, T, dim)"""
        tapes = [Tape() for _ in self.pedals]
        out = []
        for t in range(frames.size(1)):
            y = frames[:, t:t + 1]
            for pedal, tape in zip(self.pedals, tapes):
                y = torch.tanh(pedal(y, tape))
            out.append(y)
        return torch.cat(out, dim=1)


def rms_db(x):
    return 20 * torch.log10(x.pow(2).mean().sqrt().clamp(min=1e-9))


if __name__ == "__main__":
    print(rms_db(Pedalboard()(torch.randn(1, 12, 12))))
