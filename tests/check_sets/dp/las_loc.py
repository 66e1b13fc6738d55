"""Location-aware attention for the speller of an ASR system (Chorowski 2015).

    f     = conv(alpha_prev)                       K filters over time, same length
    e_t   = w . tanh(W s + V h_t + U f_t + b)
    alpha = softmax over t of (beta * e_t)         beta = sharpening, 1.0 = off
    g     = sum_t alpha_t h_t

``LocAttend(d_s, d_h, d_a, K, r, beta)``, filter width 2r+1
    s     (B, d_s)     decoder state before the step
    h     (B, T, d_h)  listener outputs
    alpha (B, T)       previous alignment; ``None`` on the first step = uniform
                       over the valid frames
    n     (B,) long    valid frames, 1 <= n <= T
returns (g (B, d_h), alpha (B, T)).
"""
import torch
from torch import nn


class LocAttend(nn.Module):
    def __init__(self, d_s, d_h, d_a, K=10, r=15, beta=1.0):
        super().__init__()
        self.W = nn.Linear(d_s, d_a)
        self.V = nn.Linear(d_h, d_a, bias=False)
        self.U = nn.Linear(K, d_a, bias=False)
        self.conv = nn.Conv1d(1, K, 2 * r + 1, padding=r, bias=False)
        self.w = nn.Linear(d_a, 1, bias=False)
        self.beta = beta

    def forward(self, s, h, alpha, n):
        T = h.size(1)
        inside = torch.arange(T, device=h.device) < n[:, None]
        if alpha is None:
            alpha = inside.to(h.dtype) / n[:, None].to(h.dtype)
        f = self.conv(alpha[:, None]).transpose(1, 2)           # (B, T, K)
        e = self.w(torch.tanh(self.W(s)[:, None] + self.V(h) + self.U(f)))[..., 0]
        e = torch.where(inside, self.beta * e, torch.full_like(e, -1e30))
        alpha = torch.softmax(e, -1)
        return torch.einsum("bt,bth->bh", alpha, h), alpha
