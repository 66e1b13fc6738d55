"""Reference for the variable-length attention kernel plus its unit tests (plain PyTorch).

Packed layout: q [total_q, H, D], k/v [total_k, G, D]; sequence b owns rows cu[b]:cu[b+1].
Causal is aligned to the bottom right: the last query of a sequence sees all of its keys.
"""
import unittest

import torch


def segment_ids(cu, total):
    return torch.bucketize(torch.arange(total, device=cu.device), cu[1:], right=True)


def attention_varlen(q, k, v, cu_q, cu_k, causal=False, scale=None):
    H, G = q.shape[1], k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    k = k.repeat_interleave(H // G, dim=1)
    v = v.repeat_interleave(H // G, dim=1)
    sq, sk = segment_ids(cu_q, q.shape[0]), segment_ids(cu_k, k.shape[0])
    allowed = sq[:, None] == sk[None, :]
    if causal:
        pq = torch.arange(q.shape[0]) - cu_q[sq]
        pk = torch.arange(k.shape[0]) - cu_k[sk]
        shift = (cu_k[1:] - cu_k[:-1]) - (cu_q[1:] - cu_q[:-1])
        allowed &= pk[None, :] <= (pq + shift[sq])[:, None]
    s = torch.einsum("qhd,khd->hqk", q.float(), k.float()) * scale
    s = s.masked_fill(~allowed, float("-inf"))
    p = torch.softmax(s, dim=-1)
    # rows without a single key give zeros, as the kernel does
    p = torch.where(allowed.any(-1)[:, None], p, torch.zeros_like(p))
    return torch.einsum("hqk,khd->qhd", p, v.float()).to(q.dtype)


def pack(seqs):
    cu = torch.zeros(len(seqs) + 1, dtype=torch.long)
    cu[1:] = torch.tensor([len(s) for s in seqs]).cumsum(0)
    return torch.cat(seqs), cu


class TestVarlen(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.lq, self.lk = [3, 1, 5], [3, 6, 9]
        self.q, self.cu_q = pack([torch.randn(n, 4, 8) for n in self.lq])
        self.k, self.cu_k = pack([torch.randn(n, 2, 8) for n in self.lk])
        self.v, _ = pack([torch.randn(n, 2, 8) for n in self.lk])

    def one(self, b, causal):
        q = self.q[self.cu_q[b]:self.cu_q[b + 1]]
        k = self.k[self.cu_k[b]:self.cu_k[b + 1]]
        v = self.v[self.cu_k[b]:self.cu_k[b + 1]]
        cu = lambda x: torch.tensor([0, len(x)])
        return attention_varlen(q, k, v, cu(q), cu(k), causal)

    def test_same_as_separately(self):
        for causal in (False, True):
            packed = attention_varlen(self.q, self.k, self.v, self.cu_q, self.cu_k, causal)
            apart = torch.cat([self.one(b, causal) for b in range(3)])
            torch.testing.assert_close(packed, apart)

    def test_first_token_causal(self):
        out = self.one(0, True)
        torch.testing.assert_close(out[0], self.v[0].repeat_interleave(2, 0))

    def test_dtype_kept(self):
        o = attention_varlen(self.q.half(), self.k.half(), self.v.half(), self.cu_q, self.cu_k)
        self.assertEqual(o.dtype, torch.float16)


if __name__ == "__main__":
    unittest.main()
