"""k-mer language model on viral genomes, autoregressive, ALiBi positions.

Slopes as in Press et al. (2022): for n heads (n a power of two) the geometric
sequence that starts at 2^(-8/n) and uses that same value as its ratio.
"""
import itertools

import torch
from torch import nn

K = 4
VOCAB = {"".join(p): i + 2 for i, p in enumerate(itertools.product("ACGT", repeat=K))}
UNK, BOS = 0, 1


def encode(seq):
    return [BOS] + [VOCAB.get(seq[i:i + K], UNK) for i in range(len(seq) - K + 1)]


def reverse_complement(seq):
    return seq.translate(str.maketrans("ACGT", "TGCA"))[::-1]


class Alibi(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        if n_heads & (n_heads - 1):
            raise ValueError("n_heads has to be a power of two")
        exponent = -8.0 * torch.arange(n_heads) / n_heads
        self.register_buffer("slopes", torch.pow(2.0, exponent))

    def forward(self, q_len, k_len):
        """Penalty [H, q_len, k_len]; the last query sits on the last key."""
        i = torch.arange(k_len - q_len, k_len, device=self.slopes.device)
        j = torch.arange(k_len, device=self.slopes.device)
        dist = (i[:, None] - j[None, :]).clamp_min(0)
        return -self.slopes[:, None, None] * dist


class GenomeAttention(nn.Module):
    def __init__(self, d, n_heads, p=0.0):
        super().__init__()
        self.n, self.hd = n_heads, d // n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.alibi = Alibi(n_heads)
        self.drop = nn.Dropout(p)

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.n, self.hd).permute(0, 2, 1, 3)

    def forward(self, x, kv=None):
        """x [b, t, d]; kv = (k, v) of earlier calls.  Returns y and the grown (k, v)."""
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if kv is not None:
            k, v = torch.cat([kv[0], k], 2), torch.cat([kv[1], v], 2)
        tq, tk = q.shape[2], k.shape[2]
        a = q @ k.transpose(2, 3) * self.hd ** -0.5 + self.alibi(tq, tk)
        hide = torch.ones(tq, tk, dtype=torch.bool, device=x.device).triu(tk - tq + 1)
        a = torch.softmax(a.masked_fill(hide, float("-inf")), dim=-1)
        y = self.drop(a) @ v
        return self.o(y.permute(0, 2, 1, 3).flatten(2)), (k, v)


class GenomeLM(nn.Module):
    def __init__(self, d=64, heads=8, depth=2):
        super().__init__()
        self.emb = nn.Embedding(len(VOCAB) + 2, d)
        self.att = nn.ModuleList([GenomeAttention(d, heads, 0.1) for _ in range(depth)])
        self.mlp = nn.ModuleList([
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])

    def forward(self, ids, cache=None):
        x = self.emb(ids)
        cache, out = cache or [None] * len(self.att), []
        for a, m, ln, c in zip(self.att, self.mlp, self.ln, cache):
            y, c = a(ln(x), c)
            x = x + y
            x = x + m(x)
            out.append(c)
        return x @ self.emb.weight.T, out

    @torch.no_grad()
    def log_likelihood(self, seq):
        """Mean over both strands."""
        total = 0.0
        for s in (seq, reverse_complement(seq)):
            ids = torch.tensor([encode(s)])
            lp = self(ids[:, :-1])[0].log_softmax(-1)
            total += lp.gather(-1, ids[:, 1:, None]).mean().item()
        return total / 2
