"""Additive self-attention over the residues of a protein (secondary structure head).

Every residue i compares itself with every residue j:

    e_ij = v . tanh(W_q h_i + W_k h_j)
    a_ij = softmax_j(e_ij)
    c_i  = sum_j a_ij h_j

Padding residues never act as j.  The head concatenates h_i and c_i and predicts
one of eight DSSP classes.
"""
import torch
import torch.nn as nn


class AdditiveSelfAttention(nn.Module):
    def __init__(self, dim, att_dim):
        super().__init__()
        self.w_q = nn.Linear(dim, att_dim, bias=False)
        self.w_k = nn.Linear(dim, att_dim)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, h, lengths):
        n = h.size(1)
        e = self.v(torch.tanh(self.w_q(h) + self.w_k(h))).squeeze(-1)
        pad = torch.arange(n, device=h.device)[None, :] >= lengths[:, None]
        e = e.masked_fill(pad, float("-inf"))
        a = torch.softmax(e, dim=-1).unsqueeze(1).expand(-1, n, -1)
        return torch.bmm(a, h), a


class StructureHead(nn.Module):
    """h (B, L, dim) from the language model, lengths (B,) -> logits (B, L, 8), a (B, L, L)"""

    n_classes = 8

    def __init__(self, dim=40, att_dim=24, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = AdditiveSelfAttention(dim, att_dim)
        self.classifier = nn.Sequential(
            nn.Linear(2 * dim, dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(dim, self.n_classes),
        )

    def forward(self, h, lengths):
        h = self.norm(h)
        c, a = self.attention(h, lengths)
        return self.classifier(torch.cat([h, c], dim=-1)), a


if __name__ == "__main__":
    head = StructureHead().eval()
    logits, a = head(torch.randn(2, 12, 40), torch.tensor([12, 9]))
    print(logits.shape, a.shape)
