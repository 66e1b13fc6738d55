"""Encoder block for spoken question answering (QANet layout)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DepthwiseSep(nn.Module):
    def __init__(self, ch, k):
        super().__init__()
        self.dw = nn.Conv1d(ch, ch, k, padding=k // 2, groups=ch)
        self.pw = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        return F.relu(self.pw(self.dw(x.transpose(1, 2)))).transpose(1, 2)


class HeadsByFolding(nn.Module):
    """Multi-head self attention; heads are folded into the batch axis for bmm.

    mask: (B, T) with 1 on words and 0 on padding
    """

    def __init__(self, d, n_head, p=0.1):
        super().__init__()
        self.n_head = n_head
        self.wq = nn.Linear(d, d, bias=False)
        self.wk = nn.Linear(d, d, bias=False)
        self.wv = nn.Linear(d, d, bias=False)
        self.fc = nn.Linear(d, d, bias=False)
        self.p = p

    def fold(self, x):
        return torch.cat(torch.chunk(x, self.n_head, dim=2), dim=0)

    def forward(self, x, mask):
        B, T, d = x.size()
        dk = d // self.n_head
        q, k, v = self.fold(self.wq(x)), self.fold(self.wk(x)), self.fold(self.wv(x))
        m = mask.unsqueeze(1).expand(-1, T, -1).repeat(self.n_head, 1, 1)
        att = torch.bmm(q, k.transpose(1, 2)) / dk ** 0.5
        att = att.masked_fill(m == 0, -1e30)
        att = F.dropout(F.softmax(att, dim=2), self.p, self.training)
        out = torch.bmm(att, v)
        out = out.view(B, self.n_head, T, dk).transpose(1, 2).contiguous().view(B, T, d)
        return self.fc(out)


class EncBlock(nn.Module):
    def __init__(self, d, n_head, n_conv=2, k=7):
        super().__init__()
        self.convs = nn.ModuleList([DepthwiseSep(d, k) for _ in range(n_conv)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(n_conv + 2)])
        self.att = HeadsByFolding(d, n_head)
        self.ff = nn.Linear(d, d)

    def forward(self, x, mask):
        for i, c in enumerate(self.convs):
            x = x + c(self.ln[i](x))
        x = x + self.att(self.ln[-2](x), mask)
        return x + F.relu(self.ff(self.ln[-1](x)))


class SpanHead(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, 2)

    def forward(self, x, mask):
        s = self.w(x).masked_fill(mask.unsqueeze(2) == 0, -1e30)
        return s[..., 0], s[..., 1]
