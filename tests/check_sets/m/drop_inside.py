import torch
import torch.nn as nn


class DroppedAttention(nn.Module):
    def __init__(self, dim, n_heads, rate=0.2):
        super().__init__()
        self.n_heads, self.rate = n_heads, rate
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, ctx):
        b, n, c = x.shape
        f = lambda z: z.view(b, -1, self.n_heads, c // self.n_heads).transpose(1, 2)
        q, k, v = f(self.q(x)), f(self.k(ctx)), f(self.v(ctx))
        p = (q @ k.transpose(2, 3) / (c // self.n_heads) ** 0.5).softmax(-1)
        p = nn.Dropout(self.rate)(p)
        return self.o((p @ v).transpose(1, 2).reshape(b, n, c))
