import torch
from torch import nn


def spin(x, pos, base=10000.0):
    """Rotate the halves of the last axis of x (B, h, T, d) by the angles of `pos` (T,)."""
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    ang = pos.to(x.dtype)[:, None] * freq
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class LiveCaptionLayer(nn.Module):
    """Streaming layer for captions: frames arrive in chunks.

    A frame sees its whole chunk and at most `left` frames before the chunk.
    state: None or (keys already rotated, values, number of frames heard so far).
    """

    def __init__(self, conf):
        super().__init__()
        d = conf["d_model"]
        self.h, self.left = conf.get("heads", 4), conf.get("left", 16)
        self.ln = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, chunk, state=None):
        B, T, D = chunk.shape
        q, k, v = [
            t.view(B, T, self.h, D // self.h).transpose(1, 2)
            for t in self.qkv(self.ln(chunk)).split(D, -1)
        ]
        heard = 0 if state is None else state[2]
        pos = torch.arange(heard, heard + T, device=chunk.device)
        q, k = spin(q, pos), spin(k, pos)
        if state is not None:
            k = torch.cat([state[0], k], 2)
            v = torch.cat([state[1], v], 2)
        w = torch.softmax(q @ k.transpose(2, 3) * (D // self.h) ** -0.5, -1)
        y = self.out((w @ v).transpose(1, 2).flatten(2))
        start = max(0, k.shape[2] - self.left)
        return chunk + y, (k[:, :, start:], v[:, :, start:], heard + T)
