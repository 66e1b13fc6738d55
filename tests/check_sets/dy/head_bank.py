"""Next-query suggestion (search box): causal self-attention, one small layer per head.

HeadBank(dim, heads).forward(x) -> (B, T, dim)
    x (B, T, dim) embedded keystrokes; step t attends to steps 0 .. t
Each head has a query, a key and a value layer of its own, dim -> dim / heads; the scale is
1/sqrt(dim / heads).  The heads' outputs are joined and go through `mix`.
Train with torch.optim.Adam(bank.parameters()).
"""
import torch
import torch.nn as nn


class HeadBank(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.d = dim // heads
        self.asks = [nn.Linear(dim, self.d, bias=False) for _ in range(heads)]
        self.keys = [nn.Linear(dim, self.d, bias=False) for _ in range(heads)]
        self.vals = [nn.Linear(dim, self.d, bias=False) for _ in range(heads)]
        self.mix = nn.Linear(dim, dim)

    def one_head(self, x, n):
        q = self.asks[n](x)
        k = self.keys[n](x)
        v = self.keys[n](x)
        s = torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5
        return torch.bmm(torch.softmax(s, dim=-1), v)

    def forward(self, x):
        return self.mix(torch.cat([self.one_head(x, n) for n in range(len(self.asks))], dim=-1))
