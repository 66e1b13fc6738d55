"""Продолжение мелодии: слой с относительными позициями (как в Music Transformer).

    x   (B, L, D)   события (нота, длительность, сдвиг) после эмбеддинга
    ->  (B, L, D)

Логит для запроса i и ключа j <= i в голове h:

    ( q_i . k_j  +  q_i . E[h, i - j] ) / sqrt(d)

E[h, r] — обучаемый вектор расстояния r = 0 .. max_len-1 (0 — само событие).
Событие видит себя и прошлое, будущего не видит. L <= max_len.
В памяти E лежит задом наперёд: последняя строка таблицы `rel` соответствует r = 0,
так удобнее для приёма со сдвигом (skewing).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeSelfAttention(nn.Module):
    def __init__(self, dim, heads, max_len=256, p=0.1):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.randn(heads, max_len, self.d) * 0.1)
        self.drop = nn.Dropout(p)

    @staticmethod
    def _skew(m):
        """(B, H, L, L) по столбцам таблицы -> (B, H, L, L) по ключам (нижний треугольник)."""
        B, H, L, _ = m.shape
        m = F.pad(m, (1, 0))
        return m.reshape(B, H, L + 1, L)[:, :, 1:]

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q = q.view(B, L, self.heads, self.d).transpose(1, 2)
        k = k.view(B, L, self.heads, self.d).permute(0, 2, 3, 1)
        v = v.view(B, L, self.heads, self.d).transpose(1, 2)

        near = self.rel[:, -L:]                                     # r = L-1 .. 0
        s = q @ k + self._skew(torch.einsum("bhld,hrd->bhlr", q, near))
        future = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        s = (s / self.d ** 0.5).masked_fill(future, float("-inf"))
        y = self.drop(torch.softmax(s, dim=-1)) @ v
        return self.to_out(y.transpose(1, 2).contiguous().view(B, L, D))


class MelodyNet(nn.Module):
    """ids (B, L) -> логиты следующего события (B, L, vocab)"""

    def __init__(self, vocab=128, dim=64, heads=4, depth=2, max_len=256):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.att = nn.ModuleList(RelativeSelfAttention(dim, heads, max_len) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.emb(ids)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.ln[2 * i](x))
            x = x + f(self.ln[2 * i + 1](x))
        return self.head(x)
