"""Next-item model behind /recommend. History is left-padded with item 0."""
from __future__ import annotations

import torch
from torch import nn

PAD = 0


class PointWiseFFN(nn.Module):
    def __init__(self, units, p):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Dropout(p),
                                 nn.Linear(units, units), nn.Dropout(p))

    def forward(self, x):
        return x + self.net(x)


class HistoryEncoder(nn.Module):
    """SASRec tower: item + position embeddings, then blocks of causal self-attention.

    Every position reads itself and the real (non-PAD) items before it.
    """

    def __init__(self, n_items, units=32, heads=2, blocks=2, maxlen=50, p=0.2):
        super().__init__()
        self.heads = heads
        self.item = nn.Embedding(n_items + 1, units, padding_idx=PAD)
        self.pos = nn.Embedding(maxlen, units)
        self.drop = nn.Dropout(p)
        self.ln_a = nn.ModuleList(nn.LayerNorm(units, eps=1e-8) for _ in range(blocks))
        self.attn = nn.ModuleList(nn.MultiheadAttention(units, heads, dropout=p) for _ in range(blocks))
        self.ln_f = nn.ModuleList(nn.LayerNorm(units, eps=1e-8) for _ in range(blocks))
        self.ffn = nn.ModuleList(PointWiseFFN(units, p) for _ in range(blocks))
        self.last = nn.LayerNorm(units, eps=1e-8)

    def blocked(self, hist):
        """[B * heads, L, L] for nn.MultiheadAttention: True = may not be read."""
        L = hist.size(1)
        future = torch.ones(L, L, dtype=torch.bool, device=hist.device).triu(1)
        self_ = torch.eye(L, dtype=torch.bool, device=hist.device)
        bad = (future | (hist == PAD)[:, None, :]) & ~self_
        return bad.repeat_interleave(self.heads, dim=0)

    def forward(self, hist):
        B, L = hist.shape
        x = self.item(hist) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.pos(torch.arange(L, device=hist.device)))
        keep = (hist != PAD).unsqueeze(-1)
        x = x * keep
        bad = self.blocked(hist)
        for ln_a, attn, ln_f, ffn in zip(self.ln_a, self.attn, self.ln_f, self.ffn):
            x = x.transpose(0, 1)                     # L, B, C
            q = ln_a(x)
            y, _ = attn(q, x, x, attn_mask=bad, need_weights=False)
            x = (q + y).transpose(0, 1)
            x = ffn(ln_f(x)) * keep
        return self.last(x)


class Recommender:
    def __init__(self, encoder: HistoryEncoder, catalogue: dict[int, str]):
        self.encoder = encoder.eval()
        self.catalogue = catalogue

    @torch.no_grad()
    def top(self, histories: list[list[int]], k=5, seen_ok=False):
        L = max(map(len, histories))
        batch = torch.zeros(len(histories), L, dtype=torch.long)
        for i, h in enumerate(histories):
            if h:
                batch[i, -len(h):] = torch.tensor(h)
        score = self.encoder(batch)[:, -1] @ self.encoder.item.weight.T
        score[:, PAD] = -float("inf")
        if not seen_ok:
            score.scatter_(1, batch, -float("inf"))
        idx = score.topk(k).indices.tolist()
        return [[self.catalogue.get(i, str(i)) for i in row] for row in idx]


def bpr_loss(encoder, hist, pos, neg):
    h = encoder(hist)
    diff = (h * (encoder.item(pos) - encoder.item(neg))).sum(-1)
    w = (pos != PAD).float()
    return -(nn.functional.logsigmoid(diff) * w).sum() / w.sum().clamp(min=1)


if __name__ == "__main__":
    r = Recommender(HistoryEncoder(100), {})
    print(r.top([[3, 7, 9], [5]]))
