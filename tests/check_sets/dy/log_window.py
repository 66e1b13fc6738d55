"""Log anomaly detection: sliding-window attention over log lines.

LogWindow(dim, heads, window).forward(x, allowed) -> (B, T, dim)
    x        (B, T, dim)
    allowed  (B, T, T) bool, allowed[b, i, j] True = line i may look at line j (same host).
             The diagonal is True.  One mask is built per batch and given to all layers
             (with different windows), so it is only read here.
    window   number of lines a line sees, itself included: i sees j with 0 <= i - j < window,
             as far as `allowed` permits
Scores are scaled with 1/sqrt(dim / heads).
"""
import torch
from torch import nn


class LogWindow(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, allowed):
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(B, T, self.heads, -1).transpose(1, 2)
        v = self.v(x).view(B, T, self.heads, -1).transpose(1, 2)
        line = torch.arange(T, device=x.device)
        back = line[:, None] - line[None, :]
        allowed &= (back >= 0) & (back <= self.window)
        s = torch.einsum("bhid,bhjd->bhij", q, k) * k.shape[2] ** -0.5
        s = s.masked_fill(~allowed[:, None], float("-inf"))
        y = torch.einsum("bhij,bhjd->bhid", s.softmax(dim=-1), v)
        return self.o(y.transpose(1, 2).reshape(B, T, D))
