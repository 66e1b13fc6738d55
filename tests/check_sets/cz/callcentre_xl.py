import torch
from torch import nn


def distance_code(n, width):
    """Row r codes distance n-1-r."""
    dist = torch.arange(n - 1, -1, -1.0)
    inv = 10000 ** (-torch.arange(0, width, 2.0) / width)
    ang = dist[:, None] * inv
    return torch.cat([ang.sin(), ang.cos()], -1)


def slide(x):
    """(B, H, T, S) with columns by falling distance -> columns by key place."""
    B, H, T, S = x.shape
    x = torch.cat([x.new_zeros(B, H, T, 1), x], -1).view(B, H, S + 1, T)
    return x[:, :, 1:].reshape(B, H, T, S)


class CallBlock(nn.Module):
    """Segment-recurrent attention over call audio frames (Transformer-XL style).

    seg (B, T, D) current segment; old (B, M, D) frames of the previous segment or None.
    Frame t reads all old frames and frames <= t. Residual + LayerNorm at the end.
    """

    def __init__(self, D=16, H=2):
        super().__init__()
        self.H, self.d = H, D // H
        self.wq = nn.Linear(D, D, bias=False)
        self.wkv = nn.Linear(D, 2 * D, bias=False)
        self.wr = nn.Linear(D, D, bias=False)
        self.wo = nn.Linear(D, D, bias=False)
        self.u = nn.Parameter(torch.randn(H, D // H))
        self.v = nn.Parameter(torch.randn(H, D // H))
        self.ln = nn.LayerNorm(D)

    def forward(self, seg, old=None):
        B, T, D = seg.shape
        full = seg if old is None else torch.cat([old.detach(), seg], 1)
        S = full.size(1)
        q = self.wq(seg).view(B, T, self.H, self.d)
        k, val = self.wkv(full).view(B, S, 2, self.H, self.d).unbind(2)
        r = self.wr(distance_code(S, D).to(seg)).view(S, self.H, self.d)
        content = torch.einsum("bthd,bshd->bhts", q + self.u, k)
        place = slide(torch.einsum("bthd,shd->bhts", q + self.v, r))
        e = (content + place) / self.d ** 0.5
        later = torch.ones(T, S, dtype=torch.bool, device=seg.device).triu(1 + S - T)
        p = e.masked_fill(later, float("-inf")).softmax(-1)
        y = torch.einsum("bhts,bshd->bthd", p, val).reshape(B, T, D)
        return self.ln(seg + self.wo(y))
