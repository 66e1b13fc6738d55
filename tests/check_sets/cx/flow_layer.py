import torch
from torch import nn


def masked(score, keep, dim):
    score = score.masked_fill(~keep, float("-inf"))
    return torch.softmax(score, dim=dim)


class FlowLayer(nn.Module):
    """Bidirectional attention flow (Seo et al., 2017).

    c [B, T, 2d] contract text, q [B, J, 2d] question, c_ok [B, T], q_ok [B, J] bool, with at least
    one True in each row. The trilinear similarity is w.[c; q; c*q].

    Output G [B, T, 8d] = [c ; c2q ; c*c2q ; c*q2c]
        c2q[t] = sum_j softmax_j(S[t, j]) q[j]
        q2c    = sum_t softmax_t(max_j S[t, j]) c[t]   (one vector, the same for all t)
    """

    def __init__(self, two_d):
        super().__init__()
        self.wc = nn.Linear(two_d, 1, bias=False)
        self.wq = nn.Linear(two_d, 1, bias=False)
        self.wm = nn.Parameter(torch.randn(two_d) / two_d ** 0.5)

    def similarity(self, c, q):
        one = self.wc(c)                              # [B, T, 1]
        two = self.wq(q).transpose(1, 2)              # [B, 1, J]
        both = torch.bmm(c * self.wm, q.transpose(1, 2))
        return one + two + both

    def forward(self, c, q, c_ok, q_ok):
        S = self.similarity(c, q)
        row = masked(S, q_ok[:, None, :], dim=2)
        c2q = row @ q
        best = S.masked_fill(~q_ok[:, None, :], float("-inf")).amax(dim=2)
        b = masked(best, c_ok, dim=1)
        q2c = (b.unsqueeze(1) @ c).expand_as(c)
        return torch.cat([c, c2q, c * c2q, c * q2c], dim=-1)
