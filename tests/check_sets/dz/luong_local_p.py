"""Luong et al. 2015, "local-p" attention with predictive alignment.

    h        (B, H)     decoder state of this step
    enc      (S, B, H)  encoder states, time first
    lengths  (B,)       number of real encoder states (the rest is padding)
    returns  attentional vector (B, H), weights (B, S)

    p      = length * sigmoid( v_p . tanh(W_p h) )                     predicted centre
    align  = softmax of  h . W_a enc_s  over the real s with |s - p| <= D
    a_s    = align_s * exp( -(s - p)^2 / (2 sigma^2) ),  sigma = D / 2
    out    = tanh( W_c [context; h] )

As in the paper the a_s are not normalised again after the Gaussian.
"""
import torch
from torch import nn


class LocalP(nn.Module):
    def __init__(self, H, D=2):
        super().__init__()
        self.D = D
        self.W_p = nn.Linear(H, H, bias=False)
        self.v_p = nn.Linear(H, 1, bias=False)
        self.W_a = nn.Linear(H, H, bias=False)
        self.W_c = nn.Linear(2 * H, H, bias=False)

    def forward(self, h, enc, lengths):
        s = torch.arange(enc.size(0), device=enc.device).unsqueeze(0)
        n = lengths.unsqueeze(1)
        p = n * torch.sigmoid(self.v_p(torch.tanh(self.W_p(h))))           # B, 1
        far = ((s - p).abs() > self.D) | (s >= n)
        score = torch.einsum("bh,sbh->bs", h, self.W_a(enc))
        align = score.masked_fill(far, float("-inf")).softmax(dim=1)
        a = align * torch.exp(-(s - p) ** 2 / (2 * (self.D / 2) ** 2))
        context = torch.einsum("bs,sbh->bh", a, enc)
        return torch.tanh(self.W_c(torch.cat([context, h], dim=1))), a
