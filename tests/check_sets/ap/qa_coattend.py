"""Bidirectional attention flow between a passage and a question (BiDAF layer) and the
pieces around it."""
import torch
from torch import nn
import torch.nn.functional as F


class Highway(nn.Module):
    def __init__(self, n, layers=2):
        super().__init__()
        self.t = nn.ModuleList([nn.Linear(n, n) for _ in range(layers)])
        self.g = nn.ModuleList([nn.Linear(n, n) for _ in range(layers)])

    def forward(self, x):
        for t, g in zip(self.t, self.g):
            gate = torch.sigmoid(g(x))
            x = gate * F.relu(t(x)) + (1 - gate) * x
        return x


def masked_softmax(logits, mask, dim=-1):
    """mask: 1 = word, 0 = padding (int, float or bool), broadcastable."""
    mask = mask.to(logits.dtype)
    big_neg = torch.finfo(logits.dtype).min
    return F.softmax(torch.where(mask > 0, logits, torch.full_like(logits, big_neg)), dim)


class CoAttention(nn.Module):
    """
    S[i, j] = w . [c_i ; q_j ; c_i * q_j]
    C2Q: every passage word reads the question   (softmax of S along the question)
    Q2C: the passage words closest to any question word (softmax of max_j S along the passage)
    out = [c ; c2q ; c * c2q ; c * q2c]
    """

    def __init__(self, dim, p=0.1):
        super().__init__()
        self.p = p
        self.wc = nn.Parameter(torch.empty(dim, 1))
        self.wq = nn.Parameter(torch.empty(dim, 1))
        self.wcq = nn.Parameter(torch.empty(1, 1, dim))
        for w in (self.wc, self.wq, self.wcq):
            nn.init.xavier_uniform_(w)
        self.bias = nn.Parameter(torch.zeros(1))

    def similarity(self, c, q):
        c = F.dropout(c, self.p, self.training)
        q = F.dropout(q, self.p, self.training)
        s0 = c @ self.wc                                  # B, Lc, 1
        s1 = (q @ self.wq).transpose(1, 2)                # B, 1, Lq
        s2 = (c * self.wcq) @ q.transpose(1, 2)           # B, Lc, Lq
        return s0 + s1 + s2 + self.bias

    def forward(self, c, q, c_mask, q_mask):
        S = self.similarity(c, q)
        a = masked_softmax(S, q_mask[:, None, :], dim=2)
        c2q = a @ q
        best = S.masked_fill(q_mask[:, None, :] == 0, torch.finfo(S.dtype).min).amax(dim=2)
        b = masked_softmax(best, c_mask, dim=1)
        q2c = (b[:, None, :] @ c).expand(-1, c.size(1), -1)
        return torch.cat([c, c2q, c * c2q, c * q2c], dim=-1)


class SpanHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.start, self.end = nn.Linear(dim, 1), nn.Linear(dim, 1)

    def forward(self, g, c_mask):
        ls = self.start(g).squeeze(-1).masked_fill(c_mask == 0, float("-inf"))
        le = self.end(g).squeeze(-1).masked_fill(c_mask == 0, float("-inf"))
        return ls.log_softmax(-1), le.log_softmax(-1)


def best_span(lp_start, lp_end, max_len=15):
    """Most probable (i, j), i <= j < i + max_len, for each row."""
    joint = lp_start[:, :, None] + lp_end[:, None, :]
    n = joint.size(1)
    band = torch.ones(n, n, dtype=torch.bool).triu() & torch.ones(n, n, dtype=torch.bool).tril(max_len - 1)
    flat = joint.masked_fill(~band, float("-inf")).flatten(1).argmax(1)
    return flat // n, flat % n
