"""Attention flow layer of BiDAF (Seo et al., 2017), part 4 of the model.

    S_tj   = w^T [h_t ; u_j ; h_t * u_j]
    C2Q    a_t = softmax_j(S_tj),          U~_t = sum_j a_tj u_j
    Q2C    b   = softmax_t(max_j S_tj),    h~   = sum_t b_t h_t,  repeated T times
    G_t    = [h_t ; U~_t ; h_t * U~_t ; h_t * h~]
"""
import torch
from torch import nn

VERY_NEGATIVE = -1e30


def masked(logits, mask):
    """Take positions out of a coming softmax. mask is 1 for words, 0 for padding."""
    return logits.masked_fill(mask.bool(), VERY_NEGATIVE)


class AttentionFlow(nn.Module):
    """H (B, T, d) context, U (B, J, d) question; c_mask (B, T) and q_mask (B, J) long,
    1 = word, 0 = padding. Returns G (B, T, 4d); rows of padded context words are to be
    ignored."""

    def __init__(self, d):
        super().__init__()
        self.w_h = nn.Linear(d, 1, bias=False)
        self.w_u = nn.Linear(d, 1, bias=False)
        self.w_hu = nn.Parameter(torch.randn(d) * d ** -0.5)

    def similarity(self, H, U):
        # the trilinear form without building (B, T, J, 3d)
        return self.w_h(H) + self.w_u(U).transpose(1, 2) + (H * self.w_hu) @ U.transpose(1, 2)

    def forward(self, H, U, c_mask, q_mask):
        S = self.similarity(H, U)                                   # (B, T, J)
        S = masked(S, q_mask.unsqueeze(1))
        a = S.softmax(dim=2)
        U_t = a @ U                                                 # (B, T, d)

        b = masked(S.max(dim=2).values, c_mask).softmax(dim=1)
        h_t = (b.unsqueeze(1) @ H).expand_as(H)                     # (B, T, d)
        return torch.cat([H, U_t, H * U_t, H * h_t], dim=-1)
