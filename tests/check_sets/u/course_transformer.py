import torch
import torch.nn as nn


class Head(nn.Module):
    """One head of scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V"""

    def __init__(self, d_model, d_k):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_k, bias=False)
        self.W_k = nn.Linear(d_model, d_k, bias=False)
        self.W_v = nn.Linear(d_model, d_k, bias=False)
        self.scale = d_k ** -0.5

    def forward(self, x, memory):
        Q, K, V = self.W_q(x), self.W_k(memory), self.W_v(memory)
        scores = torch.matmul(Q, K.transpose(-2, -1)) / self.scale
        return torch.matmul(torch.softmax(scores, dim=-1), V)


class MultiHead(nn.Module):
    """Several heads side by side, concatenated and projected back.

    x: (batch, n, d_model); memory: (batch, m, d_model)
    """

    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        self.heads = [Head(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x, memory):
        return self.W_o(torch.cat([head(x, memory) for head in self.heads], dim=-1))
