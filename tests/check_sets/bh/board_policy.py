"""shashki-zero: сеть политики/оценки для русских шашек (8x8).

Внимание по 64 клеткам с относительным смещением в духе T5: таблица
(2*8-1)^2 на голову, индекс -- разность координат (клетка ключа минус клетка
запроса). Как и в T5, скалярное произведение НЕ делится на sqrt(d): множитель
d**-0.5 внесён в инициализацию матрицы запросов, см. reset().
"""
import torch
from torch import nn

N = 8
PLANES = 5  # свои шашки, свои дамки, чужие шашки, чужие дамки, очередь хода


def relative_index():
    """(64, 64) номер строки таблицы смещений"""
    y, x = torch.meshgrid(torch.arange(N), torch.arange(N), indexing="ij")
    y, x = y.flatten(), x.flatten()
    dy = y[None, :] - y[:, None] + N - 1
    dx = x[None, :] - x[:, None] + N - 1
    return dy * (2 * N - 1) + dx


class BoardAttention(nn.Module):
    """x (B, 64, C) -> (B, 64, C); unscaled, с таблицей смещений."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.hd = heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.bias = nn.Embedding((2 * N - 1) ** 2, heads)
        self.register_buffer("rel", relative_index(), persistent=False)
        self.reset()

    def reset(self):
        w = self.q.in_features
        nn.init.normal_(self.q.weight, std=(w * self.hd) ** -0.5)
        for m in (self.k, self.v):
            nn.init.normal_(m.weight, std=w ** -0.5)
        nn.init.normal_(self.o.weight, std=w ** -0.5)
        nn.init.normal_(self.bias.weight, std=0.02)

    def forward(self, x):
        b, n, c = x.shape
        def cut(t):
            return t.view(b, n, self.heads, self.hd).transpose(1, 2)
        q, k, v = cut(self.q(x)), cut(self.k(x)), cut(self.v(x))
        s = torch.matmul(q, k.transpose(2, 3))
        s = s + self.bias(self.rel).permute(2, 0, 1)[None]
        p = torch.softmax(s.float(), dim=-1).to(x.dtype)
        return self.o(torch.matmul(p, v).transpose(1, 2).reshape(b, n, c))


class ShashkiNet(nn.Module):
    def __init__(self, width=64, heads=4, depth=3):
        super().__init__()
        self.emb = nn.Linear(PLANES, width)
        self.att = nn.ModuleList([BoardAttention(width, heads) for _ in range(depth)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(width, 2 * width), nn.Mish(),
                                               nn.Linear(2 * width, width)) for _ in range(depth)])
        self.n = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * depth)])
        self.src, self.dst = nn.Linear(width, 32), nn.Linear(width, 32)
        self.value = nn.Linear(width, 3)  # победа / ничья / поражение

    def forward(self, planes):
        """planes (B, 5, 8, 8) -> логиты ходов (B, 64*64) и оценка (B, 3)"""
        x = self.emb(planes.flatten(2).transpose(1, 2))
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = self.n[2 * i](x + a(x))
            x = self.n[2 * i + 1](x + f(x))
        moves = self.src(x) @ self.dst(x).transpose(1, 2)
        return moves.flatten(1), self.value(x.mean(1))


if __name__ == "__main__":
    m, v = ShashkiNet()(torch.randn(2, PLANES, N, N))
    print(m.shape, v.softmax(-1))
