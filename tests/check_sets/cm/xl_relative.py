"""Transformer-XL relative attention with segment memory."""
import torch
import torch.nn as nn


class RelPartialAttention(nn.Module):
    """x (B, T, D), mem (B, M, D) or None (states of the last segment, no gradient).

    score(i, j) = (q_i + u) . k_j + (q_i + w) . r_{i-j}, scaled; query i (at absolute place
    M + i) sees all of the memory and segment positions <= i. Returns (B, T, D).
    """

    def __init__(self, d_model=24, n_head=3):
        super().__init__()
        self.h, self.d = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, self.d) * 0.1)
        self.w = nn.Parameter(torch.randn(n_head, self.d) * 0.1)
        self.register_buffer("inv_freq", 10000 ** (-torch.arange(0.0, d_model, 2) / d_model))

    @staticmethod
    def _rel_shift(x):
        # (B, H, T, K): column c of row i moves to column c - (T - 1 - i)
        B, H, T, K = x.shape
        x = torch.cat((x.new_zeros(B, H, T, 1), x), dim=3)
        return x.view(B, H, K + 1, T)[:, :, 1:].reshape(B, H, T, K)

    def forward(self, x, mem=None):
        B, T, D = x.shape
        cat = x if mem is None else torch.cat((mem.detach(), x), dim=1)
        K = cat.shape[1]
        q = self.q_net(x).view(B, T, self.h, self.d)
        k, v = self.kv_net(cat).view(B, K, 2, self.h, self.d).unbind(2)
        dist = torch.arange(K - 1, -1, -1.0, device=x.device)  # K-1 ... 0
        ang = torch.outer(dist, self.inv_freq)
        r = self.r_net(torch.cat((ang.sin(), ang.cos()), -1)).view(K, self.h, self.d)
        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = self._rel_shift(torch.einsum("bihd,jhd->bhij", q + self.w, r))
        score = (ac + bd) * self.d ** -0.5
        hide = torch.ones(T, K, dtype=torch.bool, device=x.device).triu(1 + K - T)
        prob = score.masked_fill(hide, float("-inf")).softmax(-1)
        return self.o_net(torch.einsum("bhij,bjhd->bihd", prob, v).reshape(B, T, D))
