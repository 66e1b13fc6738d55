"""Reads of different length, packed one behind the other (no padding).

NumPy does the packing on the loader side, torch the arithmetic on the model side.
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BASES = {c: i for i, c in enumerate("NACGT")}


def pack(reads):
    """list of strings -> ids [T], offsets [n+1] (int32, as cu_seqlens)"""
    ids = np.concatenate([np.fromiter((BASES.get(c, 0) for c in r), np.int64) for r in reads])
    cu = np.zeros(len(reads) + 1, np.int32)
    np.cumsum([len(r) for r in reads], out=cu[1:])
    return ids, cu


def segment_ids(cu):
    return np.repeat(np.arange(len(cu) - 1), np.diff(cu))


class PackedReadAttention(nn.Module):
    """x [T, D] packed, cu offsets -> [T, D]; a base only sees the bases of its own read.

    `strand` = "fwd": additionally only bases up to and including itself; "both": all.
    """

    def __init__(self, dim, heads, strand="both"):
        super().__init__()
        if strand not in ("both", "fwd"):
            raise ValueError(strand)
        self.heads, self.strand = heads, strand
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, cu):
        T, D = x.shape
        seg = torch.from_numpy(segment_ids(np.asarray(cu))).to(x.device)
        allow = seg[:, None] == seg[None, :]
        if self.strand == "fwd":
            i = torch.arange(T, device=x.device)
            allow = allow & (i[:, None] >= i[None, :])
        q, k, v = self.in_proj(x).view(T, 3, self.heads, D // self.heads).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=allow)[0]
        return self.out_proj(y.transpose(0, 1).reshape(T, D))


class ReadClassifier(nn.Module):
    def __init__(self, dim=16, heads=2, taxa=5):
        super().__init__()
        self.emb = nn.Embedding(len(BASES), dim)
        self.att = PackedReadAttention(dim, heads)
        self.cls = nn.Linear(dim, taxa)

    def forward(self, ids, cu):
        x = self.emb(torch.as_tensor(ids))
        x = x + self.att(x, cu)
        return torch.stack([self.cls(p.mean(0)) for p in x.split(np.diff(cu).tolist())])


if __name__ == "__main__":
    i, c = pack(["ACGTAC", "GGN", "TTTTACG"])
    print(ReadClassifier()(i, c).shape)
