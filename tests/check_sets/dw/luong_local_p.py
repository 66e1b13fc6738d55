"""Local predictive attention ("local-p"), Luong, Pham & Manning 2015, section 3.2.

LocalP(hid, D)(ht, hs, lengths)
    ht       (B, hid)      current target state
    hs       (B, S, hid)   source states
    lengths  (B,)          number of real source states, >= 1
returns (h~ (B, hid), a (B, S))

    p  = (len - 1) * sigmoid(v . tanh(Wp ht))                 aligned position, a real number
    window: source positions s with |s - p| <= D, s < len
    a(s) = softmax over the window of (ht . Wa hs)  *  exp(-(s - p)^2 / (2 sigma^2)), sigma = D/2
    h~ = tanh(Wc [c; ht]),  c = sum_s a(s) hs
As in the paper the Gaussian multiplies the normalised alignments and a is NOT renormalised
afterwards; "general" scores carry no temperature.  D >= 1, so the window is never empty.
"""
import torch
import torch.nn as nn


class LocalP(nn.Module):
    def __init__(self, hid, D=2):
        super().__init__()
        self.D = D
        self.Wp = nn.Linear(hid, hid, bias=False)
        self.vp = nn.Linear(hid, 1, bias=False)
        self.Wa = nn.Linear(hid, hid, bias=False)
        self.Wc = nn.Linear(2 * hid, hid, bias=False)

    def forward(self, ht, hs, lengths):
        S = hs.size(1)
        last = (lengths - 1).to(hs.dtype)[:, None]
        p = last * torch.sigmoid(self.vp(torch.tanh(self.Wp(ht))))          # B, 1
        s = torch.arange(S, device=hs.device, dtype=hs.dtype)[None]
        outside = ((s - p).abs() > self.D) | (s > last)

        score = torch.bmm(self.Wa(hs), ht.unsqueeze(2)).squeeze(2)          # B, S
        align = score.masked_fill(outside, float("-inf")).softmax(dim=1)
        sigma = self.D / 2
        a = align * torch.exp(-(s - p) ** 2 / (2 * sigma ** 2))

        c = torch.bmm(a.unsqueeze(1), hs).squeeze(1)
        return torch.tanh(self.Wc(torch.cat([c, ht], dim=1))), a
