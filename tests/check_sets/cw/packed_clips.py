import torch
from torch import nn


class PackedClips(nn.Module):
    """Self-attention over several video clips packed into one row of frames.

    frames (T, dim); cu (n_clips + 1,) int64 with cu[0] = 0, cu[-1] = T: clip c is
    frames[cu[c]:cu[c+1]]. Frames attend within their own clip only, so packing clips
    together gives the same as running them one at a time.
    """

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.pre = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def clip_of(self, cu):
        t = torch.arange(int(cu[-1]), device=cu.device)
        return torch.searchsorted(cu[1:].contiguous(), t)

    def forward(self, frames, cu):
        T, dim = frames.shape
        x = self.pre(frames)
        q, k, v = (f(x).view(T, self.heads, -1).transpose(0, 1) for f in (self.q, self.k, self.v))
        clip = self.clip_of(cu)
        same = clip[:, None] == clip[None, :]
        s = q @ k.transpose(1, 2) / (dim // self.heads) ** 0.5
        s = s.masked_fill(~same, float("-inf"))
        y = (s.softmax(-1) @ v).transpose(0, 1).reshape(T, dim)
        return frames + self.o(y)
