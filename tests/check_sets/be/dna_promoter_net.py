"""Promoter detection on DNA windows.  One-hot input (B, L, 4) plus N bases as zeros.

The attention core was ported from the JAX prototype, whose fused kernel has the
column order [head][q, k, v][dim]; `convert_jax` copies it unchanged.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

BASES = "ACGT"


def one_hot(seq):
    out = torch.zeros(len(seq), 4)
    for i, c in enumerate(seq):
        if c in BASES:
            out[i, BASES.index(c)] = 1.0
    return out


class DnaAttention(nn.Module):
    """softmax(q k^T / sqrt(dim_head)) v per head, bidirectional.

    x (B, L, D); unknown (B, L) bool, True at N bases: nobody attends to those.
    qkv.weight rows: for each head its q rows, its k rows, its v rows.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def convert_jax(self, fused_kernel, out_kernel, out_bias):
        with torch.no_grad():
            self.qkv.weight.copy_(fused_kernel.T)
            self.to_out.weight.copy_(out_kernel.T)
            self.to_out.bias.copy_(out_bias)

    def forward(self, x, unknown=None):
        b, l, d = x.shape
        qkv = self.qkv(x).view(b, l, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        sim = torch.einsum("bhid,bhjd->bhij", q, k)
        if unknown is not None:
            sim = sim + ~unknown[:, None, None, :]
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, l, d))


class PromoterNet(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.stem = nn.Conv1d(4, dim, 9, padding=4)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attns = nn.ModuleList(DnaAttention(dim, heads) for _ in range(depth))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        unknown = x.sum(-1) == 0
        h = F.relu(self.stem(x.transpose(1, 2))).transpose(1, 2)
        for n, a, f in zip(self.norms, self.attns, self.ffs):
            h = h + a(n(h), unknown)
            h = h + f(h)
        return self.head(h.mean(1)).squeeze(-1)


if __name__ == "__main__":
    batch = torch.stack([one_hot("ACGTNNACGTTT"), one_hot("TTGACANTATAA")])
    print(PromoterNet()(batch))
