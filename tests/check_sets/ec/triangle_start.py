"""Triangular gated self-attention around the starting node (AlphaFold 2, alg. 13)
and, with orient="column", around the ending node (alg. 14).

z     (B, N, N, c)  pair representation
mask  (B, N, N)     1.0 for pairs of real residues, 0.0 for padding
Starting node:  for fixed i, edge ij attends over the edges ik with bias b(jk).
Ending node:    the same on the transposed pair matrix.
The diagonal pair of a real residue is always 1, so each real row has a key; rows of
padding residues give finite numbers that nobody reads.
"""
import torch
from torch import nn


class TriangleAttention(nn.Module):
    def __init__(self, c: int, heads: int, c_head: int, orient: str = "row"):
        super().__init__()
        assert orient in ("row", "column")
        self.orient, self.heads, self.ch = orient, heads, c_head
        self.ln = nn.LayerNorm(c)
        self.to_q = nn.Linear(c, heads * c_head, bias=False)
        self.to_k = nn.Linear(c, heads * c_head, bias=False)
        self.to_v = nn.Linear(c, heads * c_head, bias=False)
        self.to_b = nn.Linear(c, heads, bias=False)
        self.to_g = nn.Linear(c, heads * c_head)
        self.out = nn.Linear(heads * c_head, c)

    def forward(self, z: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.orient == "column":
            z, mask = z.transpose(1, 2), mask.transpose(1, 2)

        z = self.ln(z)
        head = lambda t: t.unflatten(-1, (self.heads, self.ch))
        q, k, v = head(self.to_q(z)), head(self.to_k(z)), head(self.to_v(z))
        q = q * self.ch ** -0.5

        # (B, i, h, j, k): edge ij asks, edge ik answers
        logits = torch.einsum("bijhc,bikhc->bihjk", q, k)
        logits = logits + self.to_b(z).permute(0, 3, 1, 2)[:, None]
        logits = logits.masked_fill(mask[:, :, None, None, :] == 0,
                                    torch.finfo(logits.dtype).min)
        attn = logits.softmax(dim=-1)
        o = torch.einsum("bihjk,bikhc->bijhc", attn, v)
        o = o.flatten(-2) * torch.sigmoid(self.to_g(z))
        o = self.out(o)
        return o.transpose(1, 2) if self.orient == "column" else o
