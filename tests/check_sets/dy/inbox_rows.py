"""Mail priority: self-attention over the mails of a mailbox.

InboxAttention(dim, heads).forward(x, count) -> (B, N, dim)
    x      (B, N, dim)  mails, right-padded
    count  (B,) int     mails in the mailbox, 0..N; empty mailboxes occur every night
Each real mail attends to the real mails of its mailbox, per head with 1/sqrt(dim / heads).
Rows of padding, and so all rows of an empty mailbox, come out as zeros.
"""
import torch
import torch.nn as nn


class InboxAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def split(self, t):
        return t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, count):
        B, N, _ = x.shape
        real = (torch.arange(N, device=x.device)[None] < count[:, None]).to(x.dtype)
        low = torch.finfo(x.dtype).min
        col = (1.0 - real)[:, None, None, :] * low
        row = (1.0 - real)[:, None, :, None] * low
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        scores = torch.matmul(q, k.transpose(2, 3)) / self.dim ** 0.5
        scores = scores + (col + row)
        probs = torch.softmax(scores, dim=-1)
        y = torch.matmul(probs, v).transpose(1, 2).reshape(B, N, self.dim)
        return self.wo(y) * real.unsqueeze(-1)
