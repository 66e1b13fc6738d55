# passage / question fusion layer for the QA baseline
import math
import torch
import torch.nn as nn


def soft_pick(x, keep):
    """Normalise x over its last axis among the places where keep is 1.

    Lines without any kept place come out as zeros.
    """
    keep = keep.to(x.dtype).expand_as(x)
    peak = torch.where(keep > 0, x, torch.full_like(x, -torch.inf)).amax(-1, keepdim=True)
    peak = torch.where(torch.isinf(peak), torch.zeros_like(peak), peak)
    p = torch.exp(torch.where(keep > 0, x - peak, torch.zeros_like(x))) * keep
    z = p.sum(-1, keepdim=True)
    return p / torch.where(z > 0, z, torch.ones_like(z))


class PassageQuestion(nn.Module):
    """context-to-query attention followed by the usual [c; a; c*a] projection

    c       [n, Tc, d]   passage
    q       [n, Tq, d]   question
    q_keep  [n, Tq]      1 for words, 0 for padding
    """

    def __init__(self, d):
        super().__init__()
        self.d = d
        self.left = nn.Linear(d, d, bias=False)
        self.right = nn.Linear(d, d, bias=False)
        self.fuse = nn.Linear(3 * d, d)

    def forward(self, c, q, q_keep):
        l = self.left(c)
        r = self.right(q)
        s = torch.matmul(l, r.mT).div(math.sqrt(self.d))
        p = soft_pick(s, q_keep.unsqueeze(1))
        a = p @ q
        return torch.relu(self.fuse(torch.cat([c, a, c * a], dim=-1))), p
