"""Packed (variable length) attention for nanopore reads.

Reads of one batch are concatenated along the first axis, there is no padding.
`cu` are cumulative lengths as in flash-attn: [0, len0, len0+len1, ...].
"""
import logging
from itertools import pairwise

import torch
import torch.nn.functional as F

log = logging.getLogger(__name__)
DNA = {c: i for i, c in enumerate("ACGTN")}


def pack(reads):
    """list of str -> (tokens, cu)"""
    lens = [len(r) for r in reads]
    tok = torch.tensor([DNA[c] for r in reads for c in r])
    cu = torch.tensor([0] + lens).cumsum(0)
    return tok, cu


def varlen_attention(q, k, v, cu_q, cu_k, causal=False, scale=None):
    """
    q (Tq, H, d), k/v (Tk, Hkv, d); read r owns rows cu[r]:cu[r+1].

    causal: aligned at the END of each read (the last query sees all keys of its
    own read), so a decode step with one query per read works. Queries that
    thereby have no key at all (more queries than keys) come back as 0.
    """
    Tq, H, d = q.shape
    Hkv = k.shape[1]
    if H % Hkv:
        raise ValueError(f"{H} query heads, {Hkv} kv heads")
    scale = d ** -0.5 if scale is None else scale
    out = torch.zeros(Tq, H, v.shape[-1], dtype=q.dtype, device=q.device)
    for (a, b), (c, e) in zip(pairwise(cu_q.tolist()), pairwise(cu_k.tolist())):
        n, m = b - a, e - c
        if n == 0 or m == 0:
            log.debug("empty read at %d", a)
            continue
        qs = q[a:b].transpose(0, 1).float()
        ks = k[c:e].transpose(0, 1).float().repeat_interleave(H // Hkv, dim=0)
        vs = v[c:e].transpose(0, 1).float().repeat_interleave(H // Hkv, dim=0)
        s = torch.matmul(qs, ks.transpose(1, 2)).mul(scale)
        if causal:
            keep = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n)
            s = s.masked_fill(~keep, float("-inf"))
            w = torch.nan_to_num(F.softmax(s, dim=-1))
        else:
            w = F.softmax(s, dim=-1)
        out[a:b] = (w @ vs).transpose(0, 1).to(q.dtype)
    return out


class ReadEncoder(torch.nn.Module):
    def __init__(self, d=32, h=4, hkv=2):
        super().__init__()
        self.h, self.hkv, self.hd = h, hkv, d // h
        self.emb = torch.nn.Embedding(len(DNA), d)
        self.q = torch.nn.Linear(d, d)
        self.kv = torch.nn.Linear(d, 2 * hkv * self.hd)
        self.o = torch.nn.Linear(d, d)

    def forward(self, tok, cu):
        x = self.emb(tok)
        q = self.q(x).view(-1, self.h, self.hd)
        k, v = self.kv(x).view(-1, 2, self.hkv, self.hd).unbind(1)
        return x + self.o(varlen_attention(q, k, v, cu, cu).flatten(1))


if __name__ == "__main__":
    t, c = pack(["ACGT", "GG", "TTANC"])
    print(ReadEncoder()(t, c).shape)
