"""FT-Transformer for loan default (Gorishniy et al. 2021), own small version.

Numerical columns: value * weight + bias per column. Categorical columns: embedding
tables. A [CLS] token goes in front; the prediction is read from it.
"""
import math
from typing import List, Optional

import torch
import torch.nn as nn
from torch import Tensor


class ColumnTokenizer(nn.Module):
    def __init__(self, n_num: int, cardinalities: List[int], d: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_num, d))
        self.bias = nn.Parameter(torch.empty(n_num + len(cardinalities), d))
        self.cls = nn.Parameter(torch.empty(1, 1, d))
        for p in (self.weight, self.bias, self.cls):
            nn.init.uniform_(p, -1 / math.sqrt(d), 1 / math.sqrt(d))
        self.tables = nn.ModuleList(nn.Embedding(c, d) for c in cardinalities)

    def forward(self, x_num: Tensor, x_cat: Optional[Tensor]) -> Tensor:
        tokens = [x_num.unsqueeze(-1) * self.weight]
        if self.tables:
            tokens.append(torch.stack([t(x_cat[:, i]) for i, t in enumerate(self.tables)], dim=1))
        x = torch.cat(tokens, dim=1) + self.bias
        return torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1)


class ColumnAttention(nn.Module):
    """Multi-head attention among the columns of one row, with separate maps for
    queries, keys and values. The last layer only needs the [CLS] query."""

    def __init__(self, d: int, n_heads: int, dropout: float = 0.2):
        super().__init__()
        assert d % n_heads == 0
        self.W_q = nn.Linear(d, d)
        self.W_k = nn.Linear(d, d)
        self.W_v = nn.Linear(d, d)
        self.W_out = nn.Linear(d, d) if n_heads > 1 else nn.Identity()
        self.n_heads = n_heads
        self.dropout = nn.Dropout(dropout)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, cls_only: bool = False) -> Tensor:
        x_q = x[:, :1] if cls_only else x
        q = self._heads(self.W_q(x_q))
        k = self._heads(self.W_q(x))
        v = self._heads(self.W_v(x))
        attention = torch.softmax(q @ k.mT / math.sqrt(k.shape[-1]), dim=-1)
        out = self.dropout(attention) @ v
        return self.W_out(out.transpose(1, 2).flatten(2))


class ReGLU(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return a * torch.relu(b)


class TabLayer(nn.Module):
    def __init__(self, d, n_heads, first, last):
        super().__init__()
        self.norm_a = nn.Identity() if first else nn.LayerNorm(d)
        self.norm_f = nn.LayerNorm(d)
        self.attention = ColumnAttention(d, n_heads)
        inner = int(d * 4 / 3)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * inner), ReGLU(), nn.Dropout(0.1), nn.Linear(inner, d))
        self.last = last

    def forward(self, x):
        y = self.attention(self.norm_a(x), cls_only=self.last)
        x = (x[:, :1] if self.last else x) + y
        return x + self.ffn(self.norm_f(x))


class CreditFT(nn.Module):
    def __init__(self, n_num, cardinalities, d=64, n_heads=8, depth=3, n_out=1):
        super().__init__()
        self.tokenizer = ColumnTokenizer(n_num, cardinalities, d)
        self.layers = nn.ModuleList(TabLayer(d, n_heads, i == 0, i == depth - 1) for i in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, n_out))

    def forward(self, x_num, x_cat=None):
        x = self.tokenizer(x_num, x_cat)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])

    def groups(self, weight_decay=1e-5):
        """No weight decay for biases, norms and the tokenizer."""
        skip = {id(p) for p in self.tokenizer.parameters()}
        decay, plain = [], []
        for name, p in self.named_parameters():
            (plain if id(p) in skip or p.ndim < 2 or name.endswith("bias") else decay).append(p)
        return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def quantile_edges(column: Tensor, bins: int) -> Tensor:
    q = torch.linspace(0, 1, bins + 1)
    return torch.unique(torch.quantile(column, q))


if __name__ == "__main__":
    net = CreditFT(5, [3, 7])
    print(net(torch.randn(4, 5), torch.randint(0, 3, (4, 2))).shape)
