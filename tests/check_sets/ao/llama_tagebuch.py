"""nano-llama fuer mein Tagebuch-Projekt: eine Datei, Cache, Top-p.

Die Schluessel liegen gedreht im Cache, genau wie im Original von Meta
(interleaved, komplexe Zahlen).
"""
from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Args:
    vocab: int = 256
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    max_seq: int = 512
    theta: float = 10000.0


def freqs_cis(hd, n, theta):
    f = 1.0 / theta ** (torch.arange(0, hd, 2).float() / hd)
    a = torch.outer(torch.arange(n).float(), f)
    return torch.polar(torch.ones_like(a), a)


def drehen(x, fc):
    # x [B, T, H, hd], fc [T, hd/2]
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * fc[None, :, None]).flatten(-2).type_as(x)


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attn(nn.Module):
    def __init__(self, a: Args):
        super().__init__()
        self.nh, self.nkv, self.hd = a.n_heads, a.n_kv_heads, a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, a.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, self.nkv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, self.nkv * self.hd, bias=False)
        self.wo = nn.Linear(a.n_heads * self.hd, a.dim, bias=False)
        self.register_buffer("fc", freqs_cis(self.hd, a.max_seq, a.theta), persistent=False)

    def forward(self, x, cache=None):
        """cache: None oder (k, v) der frueheren Tokens, [B, T_alt, n_kv, hd]"""
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.nh, self.hd)
        k = self.wk(x).view(B, T, self.nkv, self.hd)
        v = self.wv(x).view(B, T, self.nkv, self.hd)
        fc = self.fc[:T]
        q, k = drehen(q, fc), drehen(k, fc)
        alt = 0
        if cache is not None:
            alt = cache[0].size(1)
            k = torch.cat([cache[0], k], 1)
            v = torch.cat([cache[1], v], 1)
        neu = (k, v)
        k = k.repeat_interleave(self.nh // self.nkv, 2).transpose(1, 2)
        v = v.repeat_interleave(self.nh // self.nkv, 2).transpose(1, 2)
        m = torch.ones(T, alt + T, dtype=torch.bool, device=x.device).tril(alt)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=m)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1)), neu


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn = Attn(a)
        self.n1, self.n2 = RMS(a.dim), RMS(a.dim)
        self.w1 = nn.Linear(a.dim, 3 * a.dim, bias=False)
        self.w2 = nn.Linear(3 * a.dim, a.dim, bias=False)
        self.w3 = nn.Linear(a.dim, 3 * a.dim, bias=False)

    def forward(self, x, cache):
        y, cache = self.attn(self.n1(x), cache)
        x = x + y
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h)), cache


class Tagebuch(nn.Module):
    def __init__(self, a=Args()):
        super().__init__()
        self.emb = nn.Embedding(a.vocab, a.dim)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.n_layers))
        self.norm, self.aus = RMS(a.dim), nn.Linear(a.dim, a.vocab, bias=False)

    def forward(self, ids, caches=None):
        caches = caches or [None] * len(self.layers)
        x, neu = self.emb(ids), []
        for l, c in zip(self.layers, caches):
            x, c = l(x, c)
            neu.append(c)
        return self.aus(self.norm(x)), neu

    @torch.no_grad()
    def schreiben(self, text, n=100, p=0.9):
        ids = torch.tensor([list(text.encode())])
        logits, c = self(ids)
        for _ in range(n):
            w, i = logits[0, -1].softmax(-1).sort(descending=True)
            w[w.cumsum(0) - w > p] = 0
            nxt = i[torch.multinomial(w, 1)].view(1, 1)
            ids = torch.cat([ids, nxt], 1)
            logits, c = self(nxt, c)
        return bytes(ids[0].tolist()).decode(errors="replace")
