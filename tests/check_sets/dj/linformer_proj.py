"""Linformer (Wang и др., 2020): внимание с линейной сложностью.

    head_i = softmax( Q_i (E K_i)^T / sqrt(d) ) (F V_i),    E, F размера (k, n)

Проекции E и F действуют вдоль *длины* последовательности и общие для всех голов
("headwise sharing"). Длина входа должна быть ровно n; короткие тексты дополняются
нулями, и дополнение убирается до сжатия, потому что после него отдельных позиций
уже нет и маскировать в softmax нечего.
"""
import torch
from torch import nn


class LinformerAttention(nn.Module):
    """x: (B, n, D);  real: (B, n) bool, True = настоящий токен.  Выход (B, n, D)
    (строки дополнения в выходе смысла не имеют)."""

    def __init__(self, D=32, n=24, k=8, heads=4):
        super().__init__()
        assert D % heads == 0
        self.heads, self.n = heads, n
        self.to_q = nn.Linear(D, D, bias=False)
        self.to_kv = nn.Linear(D, 2 * D, bias=False)
        self.E = nn.Parameter(torch.randn(k, n) / n ** 0.5)
        self.F = nn.Parameter(torch.randn(k, n) / n ** 0.5)
        self.out = nn.Linear(D, D)

    def forward(self, x, real=None):
        B, n, D = x.shape
        if n != self.n:
            raise ValueError(f"длина {n}, а модель построена для {self.n}")
        d = D // self.heads
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        if real is not None:
            keep = real.unsqueeze(-1).to(x.dtype)
            k, v = k * keep, v * keep                     # у проекций нет смещения
        k = torch.einsum("kn,bnc->bkc", self.E, k)
        v = torch.einsum("kn,bnc->bkc", self.F, v)

        q = q.unflatten(-1, (self.heads, d))
        k = k.unflatten(-1, (self.heads, d))
        v = v.unflatten(-1, (self.heads, d))
        p = torch.einsum("bnhd,bkhd->bhnk", q, k).div(d ** 0.5).softmax(dim=3)
        y = torch.einsum("bhnk,bkhd->bnhd", p, v)
        return self.out(y.flatten(2))
