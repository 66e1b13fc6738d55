import torch
import torch.nn as nn


class AttentionFlow(nn.Module):
    """BiDAF's attention flow layer.  c: (N, T, 2d) context, q: (N, J, 2d) question -> G: (N, T, 8d)"""

    def __init__(self, hidden):
        super().__init__()
        self.w_c = nn.Linear(2 * hidden, 1, bias=False)
        self.w_q = nn.Linear(2 * hidden, 1, bias=False)
        self.w_cq = nn.Parameter(torch.randn(2 * hidden))

    def forward(self, c, q):
        s = self.w_c(c) + self.w_q(q).transpose(1, 2) + (c * self.w_cq) @ q.transpose(1, 2)
        # context to query: which question words matter to each context word
        a = s.softmax(dim=2)
        c2q = a @ q
        # query to context: which context words matter most, one vector for the whole context
        b = s.max(dim=2)[0].softmax(dim=1)
        q2c = (b.unsqueeze(1) @ c).expand_as(c)
        return torch.cat([c, c2q, c * c2q, c * q2c], dim=-1)
