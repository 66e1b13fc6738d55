"""Local attention with predicted alignment ("local-p", Luong et al. 2015, 3.2).

    p_t     = S * sigmoid(v_p . tanh(W_p h_t))           S: source length
    a_t(s)  = softmax_s(h_t W_a h_s) * exp(-(s - p_t)^2 / (2 sigma^2))
    sigma   = D / 2,  c_t = sum_s a_t(s) h_s,  h~ = tanh(W_c [c_t ; h_t])

The softmax is over the source positions s = 0..S-1 with |s - p_t| <= D only
(a window of at most 2D+1 words). The Gaussian comes after it and the product
is not renormalised, as in the paper.

    h (B, H) decoder state, src (B, L, H), src_len (B,) long >= 1
    returns h~ (B, H), a (B, L)
"""
import torch
from torch import nn


class LocalP(nn.Module):
    def __init__(self, H=16, D=2):
        super().__init__()
        self.D = D
        self.W_p = nn.Linear(H, H, bias=False)
        self.v_p = nn.Linear(H, 1, bias=False)
        self.W_a = nn.Linear(H, H, bias=False)
        self.W_c = nn.Linear(2 * H, H, bias=False)

    def forward(self, h, src, src_len):
        S = src_len.to(h.dtype).unsqueeze(1)                        # B 1
        p = S * torch.sigmoid(self.v_p(torch.tanh(self.W_p(h))))    # B 1
        s = torch.arange(src.size(1), device=h.device, dtype=h.dtype)
        away = s.unsqueeze(0) - p                                   # B L
        ok = (away.abs() <= self.D) & (s.unsqueeze(0) < S)
        score = torch.einsum("bh,blh->bl", h, self.W_a(src))
        a = score.masked_fill(~ok, float("-inf")).softmax(dim=1)
        sigma = self.D / 2
        a = a * torch.exp(-away.pow(2) / (2 * sigma ** 2))
        c = torch.einsum("bl,blh->bh", a, src)
        return torch.tanh(self.W_c(torch.cat([c, h], dim=1))), a
