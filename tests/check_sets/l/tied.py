import torch
import torch.nn as nn


class SelfAttentionLayer(nn.Module):
    def __init__(self, size, heads=4):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.final = nn.Linear(size, size)

    def forward(self, x):
        n, t, s = x.shape
        shape = (n, t, self.heads, s // self.heads)
        q = self.query(x).view(shape).permute(0, 2, 1, 3)
        k = self.query(x).view(shape).permute(0, 2, 3, 1)
        v = self.value(x).view(shape).permute(0, 2, 1, 3)
        attention = torch.softmax(torch.matmul(q, k) / (s // self.heads) ** 0.5, dim=-1)
        out = torch.matmul(attention, v).permute(0, 2, 1, 3).reshape(n, t, s)
        return self.final(out)
