"""Residue contact prediction from a single sequence.

Layout everywhere: [batch, residue, head, channel].  Key/value heads are shared by groups:
query head h reads kv head h // (n_q // n_kv).
"""
from __future__ import annotations

import torch
from torch import nn, Tensor

AMINO = "ACDEFGHIKLMNPQRSTVWY"


def encode(seq: str) -> Tensor:
    return torch.tensor([AMINO.index(a) for a in seq])


class ResidueMixing(nn.Module):
    def __init__(self, dim: int, n_q: int, n_kv: int) -> None:
        super().__init__()
        self.n_q, self.n_kv, self.ch = n_q, n_kv, dim // n_q
        self.wq = nn.Linear(dim, n_q * self.ch, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.ch, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.ch, bias=False)
        self.wo = nn.Linear(n_q * self.ch, dim, bias=False)

    def _share(self, t: Tensor) -> Tensor:
        """[b, r, n_kv, c] -> [b, r, n_q, c]"""
        b, r, _, c = t.shape
        group = self.n_q // self.n_kv
        return t.repeat_interleave(group, dim=1).reshape(b, r, self.n_q, c)

    def forward(self, x: Tensor, gap: Tensor | None = None) -> Tensor:
        """x [b, r, dim]; gap [b, r] is True for positions without a residue."""
        b, r, _ = x.shape
        q = self.wq(x).view(b, r, self.n_q, self.ch)
        k = self._share(self.wk(x).view(b, r, self.n_kv, self.ch))
        v = self._share(self.wv(x).view(b, r, self.n_kv, self.ch))
        s = torch.einsum("bihc,bjhc->bhij", q, k) * self.ch ** -0.5
        if gap is not None:
            s = s.masked_fill(gap[:, None, None, :], torch.finfo(s.dtype).min)
        y = torch.einsum("bhij,bjhc->bihc", s.softmax(-1), v)
        return self.wo(y.reshape(b, r, -1))


class ContactHead(nn.Module):
    def __init__(self, dim: int = 32, n_q: int = 4, n_kv: int = 2) -> None:
        super().__init__()
        self.emb = nn.Embedding(len(AMINO), dim)
        self.mix = ResidueMixing(dim, n_q, n_kv)
        self.bilinear = nn.Parameter(torch.randn(dim, dim) / dim)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.emb(ids)
        x = x + self.mix(x)
        z = x @ self.bilinear @ x.transpose(1, 2)
        return torch.sigmoid((z + z.transpose(1, 2)) / 2)


if __name__ == "__main__":
    print(ContactHead()(encode("MKTAYIAK")[None]).shape)
