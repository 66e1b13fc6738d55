import torch
from torch import nn


class FrameAttention(nn.Module):
    """Self-attention over audio frames, heads folded into the batch axis.

    frames (B, T, dim), n_frames (B,) long, 1 <= n_frames <= T: frames past it are silence
    that was added for batching and must not be read.
    """

    def __init__(self, dim=20, heads=4):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, frames, n_frames):
        B, T, dim = frames.shape
        hd = dim // self.heads
        q, k, v = (torch.cat(t.split(hd, -1), 0) for t in self.inp(frames).chunk(3, -1))
        e = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=hd ** -0.5)
        silent = torch.arange(T, device=frames.device) >= n_frames[:, None]
        silent = silent.repeat_interleave(self.heads, 0)
        e = e.masked_fill(silent[:, None, :], float("-inf"))
        y = e.softmax(-1).bmm(v)
        return self.out(torch.cat(y.split(B, 0), -1))
