"""Packed batches of inscriptions.

Inscriptions differ wildly in length (3 letters ... 4000 letters), so nothing is padded:
all letters of a batch lie in one long axis and ``cu`` holds the borders,
e.g. lengths 3, 5, 2  ->  cu = [0, 3, 8, 10].

q may be shorter than k for an inscription (restoring the last letters with the
earlier ones cached); the causal rule is then aligned to the END of both.
"""
import torch
import torch.nn as nn


def borders(lengths):
    cu = [0]
    for n in lengths:
        cu.append(cu[-1] + int(n))
    return cu


def packed_attention(q, k, v, cu_q, cu_k, causal=True, scale=None):
    """q (Tq, H, d), k and v (Tk, Hk, d), H a multiple of Hk -> (Tq, H, d).

    Query heads h*g ... h*g+g-1 read key head h.  Rows which may see nothing at all
    (more queries than keys, causal) come back as zeros.
    """
    H, Hk = q.shape[1], k.shape[1]
    g = H // Hk
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = torch.zeros(q.shape[0], H, v.shape[-1], dtype=q.dtype, device=q.device)
    for a0, a1, b0, b1 in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:]):
        n, m = a1 - a0, b1 - b0
        if n == 0 or m == 0:
            continue
        qi = q[a0:a1].unflatten(1, (Hk, g))
        s = torch.einsum("nhgd,mhd->hgnm", qi, k[b0:b1]).float() * scale
        if causal:
            i = torch.arange(n, device=q.device)[:, None] + (m - n)
            s = s.masked_fill(torch.arange(m, device=q.device)[None] > i, float("-inf"))
        p = torch.nan_to_num(torch.softmax(s, -1), nan=0.0).to(v.dtype)
        out[a0:a1] = torch.einsum("hgnm,mhd->nhgd", p, v[b0:b1]).flatten(1, 2)
    return out


class PackedReader(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.d)
        self.o = nn.Linear(dim, dim)

    def forward(self, letters, cu):
        q = self.q(letters).unflatten(-1, (self.heads, self.d))
        k, v = self.kv(letters).unflatten(-1, (2, self.kv_heads, self.d)).unbind(-3)
        return self.o(packed_attention(q, k, v, cu, cu).flatten(1))


class Restorer(nn.Module):
    ALPHABET = "ABCDEFGHIKLMNOPQRSTVXYZ·-"

    def __init__(self, dim=48, heads=4, kv_heads=2, depth=2):
        super().__init__()
        self.emb = nn.Embedding(len(self.ALPHABET), dim)
        self.body = nn.ModuleList(PackedReader(dim, heads, kv_heads) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, texts):
        ids = torch.tensor([self.ALPHABET.index(c) for t in texts for c in t])
        cu = borders(len(t) for t in texts)
        h = self.emb(ids)
        for r, n in zip(self.body, self.norm):
            h = h + r(n(h), cu)
        return h @ self.emb.weight.T


if __name__ == "__main__":
    print(Restorer()(["DIS·MANIBVS", "VIXIT", "S·T·T·L"]).shape)
