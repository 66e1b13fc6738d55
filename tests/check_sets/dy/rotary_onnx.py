"""Export-friendly rotary attention (no complex numbers, no strided slices, no gather).

The exporter of the phone runtime knows MatMul, Mul, Add, Where, Softmax and little else.
The rotation of neighbouring pairs (x0, x1), (x2, x3), ... of a head,

    y[2m]   = x[2m] cos(p w_m) - x[2m+1] sin(p w_m)
    y[2m+1] = x[2m+1] cos(p w_m) + x[2m] sin(p w_m),      w_m = base ** (-2m / d)

is written as x * cos + (x @ S) * sin with a constant d x d matrix S.

RotaryExport(dim, heads).forward(x, pos) -> (B, T, dim)
    x (B, T, dim), pos (T,) increasing integer positions; token i attends to tokens j <= i
    and scores are scaled with 1/sqrt(d), shared out as d**-0.25 on q and on k.
"""
import torch
import torch.nn as nn


class RotaryExport(nn.Module):
    def __init__(self, dim, heads, base=10000.0):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.wq, self.wk = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wv, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        w = base ** (-torch.arange(0, self.d, 2).float() / self.d)
        self.register_buffer("freq", torch.repeat_interleave(w, 2))
        S = torch.kron(torch.eye(self.d // 2), torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        self.register_buffer("swap", S)

    def _heads(self, t):
        return t.reshape(t.size(0), t.size(1), self.heads, self.d).transpose(1, 2)

    def _turn(self, t, pos):
        ang = pos.to(t.dtype).unsqueeze(-1) * self.freq
        return t * ang.cos() + (t @ self.swap) * ang.sin()

    def forward(self, x, pos):
        quarter = self.d ** -0.25
        q = self._turn(self._heads(self.wq(x)), pos) * quarter
        k = self._turn(self._heads(self.wk(x)), pos) * quarter
        v = self._heads(self.wv(x))
        s = torch.matmul(q, k.transpose(-1, -2))
        later = pos.unsqueeze(0) > pos.unsqueeze(1)
        s = torch.where(later, torch.full_like(s, float("-inf")), s)
        y = torch.matmul(torch.softmax(s, dim=-1), v)
        return self.wo(y.transpose(1, 2).reshape(x.shape))
