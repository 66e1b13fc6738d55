"""Attention flow layer of BiDAF (Seo et al. 2017), as asked in the CS224n forum.

    S_tj = w^T [h_t ; u_j ; h_t * u_j]
    C2Q : a_t = softmax over question words j of S_t:          U~_t = sum_j a_tj u_j
    Q2C : b   = softmax over context words t of max_j S_tj      h~   = sum_t b_t h_t
    G_t = [h_t ; U~_t ; h_t * U~_t ; h_t * h~]
"""
import torch
import torch.nn as nn

NEG = torch.finfo(torch.float32).min


def masked_softmax(x, keep, dim):
    return torch.softmax(torch.where(keep, x, NEG), dim)


class AttFlow(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.wh = nn.Linear(n, 1, bias=False)
        self.wu = nn.Linear(n, 1, bias=False)
        self.whu = nn.Parameter(torch.empty(n))
        nn.init.normal_(self.whu, std=n ** -0.5)

    def forward(self, h, u, h_ok, u_ok):
        """
        h (B, T, n) context, u (B, J, n) question
        h_ok (B, T), u_ok (B, J) bool, True = word, False = pad (never a row without words)
        returns G (B, T, 4n); rows of padded context words are meaningless
        """
        S = self.wh(h) + self.wu(u).transpose(1, 2) + (h * self.whu) @ u.transpose(1, 2)   # (B, T, J)
        a = masked_softmax(S, u_ok[:, None, :], -1)
        U = a @ u
        best = torch.where(u_ok[:, None, :], S, NEG).amax(-1)           # (B, T)
        b = masked_softmax(best, h_ok, -1)
        hh = (b.unsqueeze(1) @ h).expand_as(h)
        return torch.cat([h, U, h * U, h * hh], -1)
