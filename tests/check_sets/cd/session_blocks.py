"""Session-based next-item model: one block over the clicks of a session.

``forward`` takes item ids (0 is padding, on the right) and returns a session
vector, the state of the last real click.  Clicks see only real clicks.  Dropout
is a training regulariser.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ClickAttention(nn.Module):

    def __init__(self, dim, heads, p):
        super(ClickAttention, self).__init__()
        self.heads, self.p = heads, p
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, x, keep):
        n, l, dim = x.size()
        d = dim // self.heads
        q = self.query(x).view(n, l, self.heads, d).permute(0, 2, 1, 3)
        k = self.key(x).view(n, l, self.heads, d).permute(0, 2, 3, 1)
        v = self.value(x).view(n, l, self.heads, d).permute(0, 2, 1, 3)

        att = torch.matmul(q, k) / d ** 0.5
        att = att * keep.view(n, 1, 1, l).to(att.dtype)
        att = F.softmax(att, dim=-1)
        att = F.dropout(att, p=self.p)

        y = torch.matmul(att, v)
        return y.permute(0, 2, 1, 3).contiguous().view(n, l, dim)


class SessionEncoder(nn.Module):

    def __init__(self, n_items=200, dim=32, heads=2, max_len=30, p=0.2):
        super(SessionEncoder, self).__init__()
        self.item = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.position = nn.Embedding(max_len, dim)
        self.attention = ClickAttention(dim, heads, p)
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, ids):
        keep = ids.ne(0)
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.item(ids) + self.position(pos)
        h = self.norm(x + self.attention(x, keep))
        h = h + F.relu(self.fc(h))
        last = keep.sum(1).clamp(min=1) - 1
        return h[torch.arange(ids.size(0), device=ids.device), last]

    def scores(self, ids):
        """logits over all items, column 0 is item 1"""
        return self.forward(ids) @ self.item.weight[1:].t()
