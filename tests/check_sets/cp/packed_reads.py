"""Variable-length attention over packed nanopore reads, no padding.

Reads are laid end to end in one (total, dim) tensor, `cu_seqlens` holds the
boundaries [0, n0, n0+n1, ..., total] as in flash-attn's varlen API.  A base may
only look at bases of the same read at or before its own position.

muP: we transfer hyper-parameters from a small proxy model, therefore logits are
multiplied by 1/head_dim and not by 1/sqrt(head_dim) (Yang et al., Tensor Programs V).
"""
import torch
import torch.nn as nn


def read_ids(cu_seqlens: torch.Tensor) -> torch.Tensor:
    lens = cu_seqlens[1:] - cu_seqlens[:-1]
    return torch.repeat_interleave(torch.arange(len(lens), device=lens.device), lens)


class PackedReadAttention(nn.Module):
    """MuP-scaled causal self attention.

    >>> att = PackedReadAttention(dim=32, heads=4)
    >>> att(torch.randn(9, 32), torch.tensor([0, 4, 9])).shape
    torch.Size([9, 32])
    """

    def __init__(self, dim: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        nn.init.normal_(self.wqkv.weight, std=dim ** -0.5)

    def forward(self, x: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        total, dim = x.shape
        if int(cu_seqlens[-1]) != total:
            raise ValueError(f"cu_seqlens ends at {int(cu_seqlens[-1])}, packed tensor has {total} rows")
        q, k, v = self.wqkv(x).view(total, 3, self.heads, self.head_dim).unbind(1)

        logits = torch.einsum("ihd,jhd->hij", q, k) * (1.0 / self.head_dim)
        seg = read_ids(cu_seqlens)
        same = seg[:, None] == seg[None, :]
        past = torch.ones(total, total, dtype=torch.bool, device=x.device).tril()
        logits = logits.masked_fill(~(same & past), float("-inf"))
        w = torch.softmax(logits, dim=-1)
        return self.wo(torch.einsum("hij,jhd->ihd", w, v).reshape(total, dim))
