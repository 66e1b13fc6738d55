import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, size, n_head):
        super().__init__()
        self.n_head = n_head
        self.d_k = size // n_head
        self.w_q = nn.Linear(size, size)
        self.w_k = nn.Linear(size, size)
        self.w_v = nn.Linear(size, size)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, q, k, v):
        b = q.size(0)
        q = self.w_q(q).view(b, -1, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_k(k).view(b, -1, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_v(v).view(b, -1, self.n_head, self.d_k).transpose(1, 2)
        score = q @ k.transpose(2, 3)
        score = self.softmax(score)
        return (score @ v).transpose(1, 2).reshape(b, -1, self.n_head * self.d_k)
