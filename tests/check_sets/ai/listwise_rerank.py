"""Listwise reranker of the product search: all candidates of one query in one pass.

Score tensors in this module are kept as [batch, KEY, QUERY, head]: the export to the
accelerator wants the reduced axis second.
"""
import torch
import torch.nn as nn


class CandidateEncoder(nn.Module):
    def __init__(self, n_numeric, n_brands, width):
        super().__init__()
        self.num = nn.Sequential(nn.BatchNorm1d(n_numeric), nn.Linear(n_numeric, width))
        self.brand = nn.Embedding(n_brands, width)

    def forward(self, numeric, brand):
        b, n, f = numeric.shape
        return self.num(numeric.reshape(b * n, f)).view(b, n, -1) + self.brand(brand)


class CrossItemAttention(nn.Module):
    """present: [batch, items] bool, False for the filler at the end of short result lists."""

    def __init__(self, width, n_heads, p=0.0):
        super().__init__()
        assert width % n_heads == 0
        self.n_heads = n_heads
        self.dk = width // n_heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(p)

    def forward(self, items, present, price_gap=None):
        """price_gap [batch, items, items]: (asking item, seen item) relative gap, subtracted from the scores"""
        b, n, w = items.shape
        q, k, v = self.to_qkv(items).view(b, n, 3, self.n_heads, self.dk).unbind(2)
        s = torch.einsum("bqhd,bkhd->bkqh", q, k) * (1.0 / self.dk ** 0.5)
        if price_gap is not None:
            s = s - price_gap.transpose(1, 2).unsqueeze(-1)
        s = s.masked_fill(~present[:, :, None, None], torch.finfo(s.dtype).min)
        a = self.drop(s.softmax(dim=1))
        y = torch.einsum("bkqh,bkhd->bqhd", a, v)
        return self.proj(y.flatten(2))


class RerankLayer(nn.Module):
    def __init__(self, width, n_heads, p):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CrossItemAttention(width, n_heads, p)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x, present, gap):
        x = x + self.attn(self.ln1(x), present, gap)
        return x + self.ff(self.ln2(x))


class ListwiseReranker(nn.Module):
    def __init__(self, n_numeric=8, n_brands=100, width=32, n_heads=4, depth=2, p=0.1):
        super().__init__()
        self.enc = CandidateEncoder(n_numeric, n_brands, width)
        self.layers = nn.ModuleList([RerankLayer(width, n_heads, p) for _ in range(depth)])
        self.head = nn.Linear(width, 1)

    def forward(self, numeric, brand, present, price=None):
        gap = None
        if price is not None:
            logp = price.clamp(min=0.01).log()
            gap = (logp[:, :, None] - logp[:, None, :]).clamp(min=0.0)
        x = self.enc(numeric, brand)
        for layer in self.layers:
            x = layer(x, present, gap)
        return self.head(x).squeeze(-1).masked_fill(~present, float("-inf"))


def list_mle(scores, relevance, present):
    """Plackett-Luce loss of the ideal order."""
    order = relevance.masked_fill(~present, -1.0).argsort(dim=1, descending=True)
    s = scores.gather(1, order)
    m = present.gather(1, order)
    tail = torch.logcumsumexp(s.masked_fill(~m, -1e9).flip(1), dim=1).flip(1)
    return ((tail - s).masked_fill(~m, 0.0).sum(1) / m.sum(1)).mean()


def ndcg(scores, relevance, k=10):
    top = scores.argsort(dim=1, descending=True)[:, :k]
    ideal = relevance.sort(dim=1, descending=True).values[:, :k]
    disc = 1.0 / torch.log2(torch.arange(top.size(1), device=scores.device).float() + 2)
    dcg = ((2 ** relevance.gather(1, top) - 1) * disc).sum(1)
    return (dcg / ((2 ** ideal - 1) * disc).sum(1).clamp(min=1e-9)).mean()
