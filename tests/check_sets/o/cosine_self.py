import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineSelfAttention(nn.Module):
    """Scores are cosines of queries and keys, times a learned factor."""

    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.tau = nn.Parameter(torch.tensor(8.0))
        self.w = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.w(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q = F.normalize(q, dim=-2)
        k = F.normalize(k, dim=-1)
        p = torch.softmax(self.tau * q @ k.transpose(-1, -2), dim=-1)
        return self.o((p @ v).transpose(1, 2).flatten(2))
