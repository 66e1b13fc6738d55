"""In-hospital mortality from ICU events (MIMIC extract)."""
import torch
import torch.nn as nn


class EventAttention(nn.Module):
    """events (B, N, D) embedded lab values and drugs of a stay, right padded;
    lens (B,) number of real events, at least 1.

    Multi-head attention, 1/sqrt(d) with d the head size; padded events are ignored as keys.
    Output (B, N, D).
    """

    def __init__(self, dim=32, n_head=4, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k = n_head, dim // n_head
        self.w_qs = nn.Linear(dim, dim, bias=False)
        self.w_ks = nn.Linear(dim, dim, bias=False)
        self.w_vs = nn.Linear(dim, dim, bias=False)
        self.fc = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, events, lens):
        B, N, _ = events.shape
        q = self.w_qs(events).view(B, N, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(events).view(B, N, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(events).view(B, N, self.n_head, self.d_k).transpose(1, 2)

        attn = torch.matmul(q / self.d_k ** 0.5, k.transpose(2, 3))
        pad = torch.arange(N, device=events.device)[None, :] >= lens[:, None]
        attn.masked_fill(pad[:, None, None, :], -1e9)
        attn = self.dropout(torch.softmax(attn, dim=-1))
        out = torch.matmul(attn, v).transpose(1, 2).reshape(B, N, -1)
        return self.fc(out)


class MortalityNet(nn.Module):
    """(events (B, N, 8), lens) -> risk (B,) in 0..1, from the mean of the real events"""

    def __init__(self, feats=8, dim=32):
        super().__init__()
        self.inp = nn.Linear(feats, dim)
        self.att = EventAttention(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, events, lens):
        x = self.inp(events)
        x = x + self.att(x, lens)
        w = (torch.arange(x.size(1), device=x.device)[None] < lens[:, None]).float()
        x = (x * w.unsqueeze(-1)).sum(1) / lens[:, None]
        return torch.sigmoid(self.out(x)).squeeze(-1)
