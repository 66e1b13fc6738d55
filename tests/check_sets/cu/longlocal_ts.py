"""Local self-attention for long load curves (electricity), O(T * w) memory.

Step t attends to exactly w steps: itself and the w-1 before it (fewer at the start of
the series). Keys are gathered with unfold, no T x T matrix is ever built.
"""
import torch
from torch import nn
import torch.nn.functional as F


class LocalTS(nn.Module):
    def __init__(self, dim=24, heads=3, w=4):
        super().__init__()
        self.h, self.w = heads, w
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def gather(self, t):
        # (B, T, h, d) -> (B, T, h, d, span); last slot is the step itself
        t = F.pad(t, (0, 0, 0, 0, self.w, 0))
        return t.unfold(1, self.w + 1, 1)

    def forward(self, x):
        """x (B, T, dim) -> (B, T, dim)"""
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.h, -1)
        k, v = self.kv(x).view(B, T, self.h, -1).chunk(2, -1)
        k, v = self.gather(k), self.gather(v)
        s = torch.einsum("bthd,bthdw->bthw", q, k) / q.shape[-1] ** 0.5
        n = s.shape[-1]
        # slots reaching back before step 0 are padding
        age = torch.arange(n - 1, -1, -1, device=x.device)
        ghost = age[None, :] > torch.arange(T, device=x.device)[:, None]
        s = s.masked_fill(ghost[None, :, None], float("-inf"))
        y = torch.einsum("bthw,bthdw->bthd", s.softmax(-1), v)
        return x + self.o(y.reshape(B, T, D))
