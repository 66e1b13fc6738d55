import torch
from torch import nn


class LoadEncoderLayer(nn.Module):
    """Transformer encoder layer for electricity load series, x: (batch, hours, d_model).

    Multi-head self-attention (each head has its own slice of d_model/n_heads channels),
    then a feed-forward net; post-norm.
    """

    def __init__(self, d_model=32, n_heads=4, d_ff=64):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff1 = nn.Linear(d_model, d_ff)
        self.ff2 = nn.Linear(d_ff, d_model)

    def heads(self, t):
        # -> (batch, n_heads, hours, d_head)
        return t.reshape(t.size(0), self.n_heads, -1, self.d_head)

    def forward(self, x):
        b, hours, d_model = x.shape
        q, k, v = self.heads(self.wq(x)), self.heads(self.wk(x)), self.heads(self.wv(x))
        weights = torch.softmax(q @ k.transpose(-2, -1) / self.d_head ** 0.5, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(b, hours, d_model)
        x = self.norm1(x + self.wo(mixed))
        return self.norm2(x + self.ff2(torch.relu(self.ff1(x))))
