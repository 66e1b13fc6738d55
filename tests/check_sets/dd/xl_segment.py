"""Relative multi-head attention of Transformer-XL with the memory of the previous segment."""
import torch
import torch.nn as nn


class SegmentRecurrence(nn.Module):
    def __init__(self, n_head, d_model, d_head):
        super().__init__()
        self.n, self.d = n_head, d_head
        self.qkv_net = nn.Linear(d_model, 3 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        self.v = nn.Parameter(torch.randn(n_head, d_head) * 0.1)
        freq = 10000 ** -(torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("freq", freq, persistent=False)

    def sinusoid(self, length):
        dist = torch.arange(length - 1, -1, -1.0, device=self.freq.device)
        a = torch.outer(dist, self.freq)
        return torch.cat([a.sin(), a.cos()], dim=-1)

    @staticmethod
    def rel_shift(x):
        b, h, t, s = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], dim=-1).view(b, h, s + 1, t)
        return x[:, :, 1:].reshape(b, h, t, s)

    def forward(self, w, mems=None):
        """w (B, T, d_model), mems (B, M, d_model) or None -> (B, T, d_model)"""
        cat = w if mems is None else torch.cat([mems.detach(), w], dim=1)
        B, T, S = w.size(0), w.size(1), cat.size(1)
        q, k, val = self.qkv_net(cat).view(B, S, 3, self.n, self.d).unbind(2)
        q = q[:, -T:]
        r = self.r_net(self.sinusoid(S)).view(S, self.n, self.d)
        AC = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        BD = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.v, r))
        score = (AC + BD) / self.d ** 0.5
        hidden = torch.ones(T, S, dtype=torch.bool, device=w.device).triu(1 + S - T)
        prob = score.masked_fill(hidden, float("-inf")).softmax(dim=3)
        return self.o_net(torch.einsum("bhij,bjhd->bihd", prob, val).flatten(2))
