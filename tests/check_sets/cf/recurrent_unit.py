"""Real-gated linear recurrent unit (the recurrent part of Griffin), inference.

    r_t = sigmoid(W_a x_t)          recurrence gate
    i_t = sigmoid(W_x x_t)          input gate
    a_t = a^(c r_t),  a = sigmoid(Lambda),  c = 8
    h_t = a_t * h_{t-1} + sqrt(1 - a_t^2) * (i_t * x_t)

The block around it: two branches, one GELU, one temporal convolution plus the
unit, multiplied and projected.  State: (h, last inputs of the convolution).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RGLRU(nn.Module):
    def __init__(self, width, c=8.0):
        super().__init__()
        self.c = c
        self.w_a = nn.Linear(width, width)
        self.w_x = nn.Linear(width, width)
        a = torch.empty(width).uniform_(0.9, 0.999)
        self.lam = nn.Parameter(torch.log(a / (1 - a)))

    def forward(self, x, h):
        # x: B T W, h: B W
        r = torch.sigmoid(self.w_a(x))
        i = torch.sigmoid(self.w_x(x))
        log_a = self.c * r * F.logsigmoid(self.lam)
        a = log_a.exp()
        u = torch.sqrt(-torch.expm1(2 * log_a)) * (i * x)
        out = []
        for t in range(x.size(1)):
            h = a[:, t] * h + u[:, t]
            out.append(h)
        return torch.stack(out, dim=1), h


class RecurrentBlock(nn.Module):
    def __init__(self, dim=32, width=48, conv=4):
        super().__init__()
        self.conv_width = conv
        self.gate = nn.Linear(dim, width)
        self.inp = nn.Linear(dim, width)
        self.conv = nn.Conv1d(width, width, conv, groups=width)
        self.unit = RGLRU(width)
        self.out = nn.Linear(width, dim)

    def initial(self, batch):
        w = self.inp.out_features
        p = self.inp.weight
        return p.new_zeros(batch, w), p.new_zeros(batch, w, self.conv_width - 1)

    def forward(self, x, state=None):
        """x (B, T, dim) -> (B, T, dim), state"""
        h, tail = self.initial(x.size(0)) if state is None else state
        g = F.gelu(self.gate(x))
        u = torch.cat([tail, self.inp(x).transpose(1, 2)], dim=2)
        tail = u[:, :, -(self.conv_width - 1):]
        y, h = self.unit(self.conv(u).transpose(1, 2), h)
        return self.out(g * y), (h, tail)
