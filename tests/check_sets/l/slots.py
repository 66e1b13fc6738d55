import torch
from torch import nn


class SlotAttention(nn.Module):
    """One iteration of slot attention (Locatello et al. 2020).

    The softmax runs over the slots, which compete for the inputs; the weights are then normalised over the inputs
    (a weighted mean).  inputs (B, N, dim), slots (B, K, dim) -> (B, K, dim)
    """

    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.scale = dim ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)

    def forward(self, inputs, slots):
        k, v = self.to_k(inputs), self.to_v(inputs)
        q = self.to_q(slots)
        dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
        attn = dots.softmax(dim=1) + self.eps
        attn = attn / attn.sum(dim=-1, keepdim=True)
        return torch.einsum("bjd,bij->bid", v, attn)
