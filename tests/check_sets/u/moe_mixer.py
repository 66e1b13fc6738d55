import torch
import torch.nn as nn


class Experts(nn.Module):
    def __init__(self, dim=16, hidden=24, n=4, k=2):
        super().__init__()
        self.router = nn.Linear(dim, n, bias=False)
        self.w1 = nn.Parameter(torch.randn(n, dim, hidden) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(n, hidden, dim) * hidden ** -0.5)
        self.k = k

    def forward(self, x):
        logits = self.router(x)
        top, idx = logits.topk(self.k, -1)
        gate = torch.zeros_like(logits).scatter(-1, idx, top.softmax(-1))
        y = torch.einsum("btnh,nhd->btnd", torch.relu(torch.einsum("btd,ndh->btnh", x, self.w1)), self.w2)
        return torch.einsum("btn,btnd->btd", gate, y)


class MixerBlock(nn.Module):
    def __init__(self, tokens=9, dim=16):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.experts = Experts(dim)

    def forward(self, x):
        x = x + self.mix(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.experts(self.n2(x))
