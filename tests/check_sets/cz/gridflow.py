import torch
import torch.nn as nn
import torch.nn.functional as F


def positive(t):
    return F.elu(t) + 1


class GridFlow(nn.Module):
    """Kernel attention between forecast points and station reports, linear in both.

    points (B, P, C), reports (B, R, C), ok (B, R) bool, True = report usable.
    phi(x) = elu(x) + 1; out_p = sum_r phi(a_p).phi(b_r) c_r / sum_r phi(a_p).phi(b_r).
    Without any usable report the mixture is zero.
    """

    def __init__(self, C=24, heads=3):
        super().__init__()
        self.h = heads
        self.a, self.b, self.c, self.out = (nn.Linear(C, C) for _ in range(4))

    def _cut(self, t):
        return t.unflatten(-1, (self.h, -1))

    def forward(self, points, reports, ok=None):
        a, b = positive(self._cut(self.a(points))), positive(self._cut(self.b(reports)))
        c = self._cut(self.c(reports))
        if ok is not None:
            b = b.masked_fill(~ok[:, :, None, None], 0)
            c = c.masked_fill(~ok[:, :, None, None], 0)
        state = torch.einsum("brhd,brhe->bhde", b, c)
        norm = torch.einsum("bphd,bhd->bph", a, b.sum(1))
        y = torch.einsum("bphd,bhde->bphe", a, state) / norm.clamp_min(1e-9)[..., None]
        return self.out(y.flatten(2))
