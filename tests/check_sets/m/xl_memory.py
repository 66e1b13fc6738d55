import torch
import torch.nn as nn


class MemoryAttention(nn.Module):
    """Self-attention of a segment over itself (causally) and over the memory of the former segment (all of it).

    x (B, T, C), mems (B, M, C); no gradient flows into the memory.
    """

    def __init__(self, c, n_head):
        super().__init__()
        self.n_head = n_head
        self.d = c // n_head
        self.q_net = nn.Linear(c, c, bias=False)
        self.kv_net = nn.Linear(c, 2 * c, bias=False)
        self.o_net = nn.Linear(c, c, bias=False)

    def forward(self, x, mems):
        B, T, C = x.shape
        cat = torch.cat([mems.detach(), x], dim=1)
        M = mems.shape[1]
        q = self.q_net(x).view(B, T, self.n_head, self.d)
        k, v = self.kv_net(cat).view(B, M + T, 2, self.n_head, self.d).unbind(2)
        s = torch.einsum("bind,bjnd->bnij", q, k).mul_(1 / self.d ** 0.5)
        dec = torch.triu(x.new_ones(T, M + T), diagonal=1 + M).bool()
        s = s.masked_fill(dec, float("-inf"))
        p = torch.softmax(s, dim=3)
        y = torch.einsum("bnij,bjnd->bind", p, v).contiguous().view(B, T, C)
        return self.o_net(y)
