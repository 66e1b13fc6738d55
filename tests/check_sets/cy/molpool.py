import torch
from torch import nn


class MolPool(nn.Module):
    """Readout for a batch of molecules: each head draws its own distribution over
    the atoms of a molecule and averages the projected atoms with it.

    atoms (B, N, dim), exists (B, N) bool, at least one atom per molecule.
    Returns (B, heads * d_head) and the head-wise distributions (B, heads, N).
    """

    def __init__(self, dim, heads, d_head):
        super().__init__()
        self.heads, self.d = heads, d_head
        self.seeds = nn.Parameter(torch.randn(heads, d_head))
        self.key = nn.Linear(dim, heads * d_head)
        self.val = nn.Linear(dim, heads * d_head)
        self.norm = nn.LayerNorm(heads * d_head)

    def forward(self, atoms, exists):
        B, N, _ = atoms.shape
        k = self.key(atoms).view(B, N, self.heads, self.d)
        v = self.val(atoms).view(B, N, self.heads, self.d)
        e = torch.einsum("hd,bnhd->bhn", self.seeds, k) / self.d ** 0.5
        e = e.masked_fill(~exists[:, None, :], float("-inf"))
        w = e.flatten(1).softmax(dim=-1).view(B, self.heads, N)
        pooled = torch.einsum("bhn,bnhd->bhd", w, v)
        return self.norm(pooled.flatten(1)), w
