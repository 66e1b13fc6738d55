"""Addressing of a Neural Turing Machine head (Graves, Wayne, Danihelka 2014, section 3.3).

    content       wc(i) = softmax_i( beta * cos(k, M(i)) )                       (5, 6)
    interpolation wg    = g wc + (1 - g) w_prev                                  (7)
    shift         ws(i) = sum_j wg(j) s(i - j)     indices mod N                 (8)
    sharpening    w(i)  = ws(i)^gamma / sum_j ws(j)^gamma                        (9)
    read          r     = sum_i w(i) M(i)                                        (2)
"""
import torch
from torch import nn
import torch.nn.functional as F


class ReadHead(nn.Module):
    """forward(ctrl, M, w_prev)

    ctrl   (B, C)     controller output
    M      (B, N, W)  memory matrix
    w_prev (B, N)     weighting of the previous step, rows sum to one
    ->     r (B, W), w (B, N)
    Allowed shifts are -1, 0, +1 (s[:, 0] moves the focus one slot down, s[:, 2] up).
    """

    def __init__(self, C, W):
        super().__init__()
        self.sizes = [W, 1, 1, 3, 1]
        self.fc = nn.Linear(C, sum(self.sizes))

    @staticmethod
    def shift(wg, s):
        # wg(i - o) s(o) for o in (-1, 0, 1); roll by o brings slot i-o to slot i
        return sum(s[:, n:n + 1] * wg.roll(o, dims=1) for n, o in enumerate((-1, 0, 1)))

    def forward(self, ctrl, M, w_prev):
        k, beta, g, s, gamma = self.fc(ctrl).split(self.sizes, dim=1)
        beta = F.softplus(beta)
        g = torch.sigmoid(g)
        s = F.softmax(s, dim=1)
        gamma = 1 + F.softplus(gamma)

        sim = F.cosine_similarity(k.unsqueeze(1), M, dim=-1, eps=1e-8)
        wc = F.softmax(beta * sim, dim=1)
        wg = g * wc + (1 - g) * w_prev
        ws = self.shift(wg, s)
        w = ws.clamp_min(1e-12) ** gamma
        w = w / w.sum(dim=1, keepdim=True)
        r = torch.bmm(w.unsqueeze(1), M).squeeze(1)
        return r, w
