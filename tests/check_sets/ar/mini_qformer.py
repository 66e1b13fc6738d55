"""Mini Q-Former (BLIP-2). Learned queries and text share self-attention; every second layer
the queries also cross-attend to frozen image features.

attention masks follow the HF habit: 1 = token, 0 = padding; we make them additive once.
"""
import math
import torch
from torch import nn


def to_additive(mask, dtype):
    """(B, L) or (B, Lq, L) of 1/0 -> (B, 1, 1 or Lq, L) of 0/min"""
    if mask.dim() == 2:
        mask = mask[:, None, :]
    return (1.0 - mask[:, None].to(dtype)) * torch.finfo(dtype).min


def unified_mask(text_mask, n_query):
    """Image grounded text generation: queries see queries only; text sees the queries and the
    text before it.  Returns (B, L, L) of 1/0, L = n_query + text."""
    B, T = text_mask.shape
    m = torch.zeros(B, n_query + T, n_query + T)
    m[:, :, :n_query] = 1
    m[:, n_query:, n_query:] = torch.tril(torch.ones(T, T)) * text_mask[:, None, :]
    return m


class BertStyleAttention(nn.Module):
    def __init__(self, hidden, heads, enc_hidden=None, drop=0.1):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        kv = enc_hidden or hidden
        self.query, self.key, self.value = nn.Linear(hidden, hidden), nn.Linear(kv, hidden), nn.Linear(kv, hidden)
        self.dense, self.ln = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        self.drop = nn.Dropout(drop)

    def transpose_for_scores(self, x):
        return x.view(*x.shape[:2], self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, h, additive=None, enc=None):
        src = h if enc is None else enc
        q = self.transpose_for_scores(self.query(h))
        k = self.transpose_for_scores(self.key(src))
        v = self.transpose_for_scores(self.value(src))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        if additive is not None:
            scores = scores + additive
        probs = self.drop(scores.softmax(dim=-1))
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous().flatten(2)
        return self.ln(self.dense(ctx) + h)


class QLayer(nn.Module):
    def __init__(self, d, heads, d_img, cross):
        super().__init__()
        self.self_att = BertStyleAttention(d, heads)
        self.cross_att = BertStyleAttention(d, heads, d_img) if cross else None
        mk = lambda: nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.ff_q, self.ff_t, self.ln_q, self.ln_t = mk(), mk(), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, nq, self_mask, img, img_mask):
        x = self.self_att(x, self_mask)
        q, t = x[:, :nq], x[:, nq:]
        if self.cross_att is not None:
            q = self.cross_att(q, img_mask, enc=img)
        return torch.cat([self.ln_q(q + self.ff_q(q)), self.ln_t(t + self.ff_t(t))], 1)


class QFormer(nn.Module):
    def __init__(self, d=32, heads=4, d_img=24, n_query=6, layers=2):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, n_query, d) * 0.02)
        self.layers = nn.ModuleList(QLayer(d, heads, d_img, i % 2 == 0) for i in range(layers))

    def forward(self, text_emb, text_mask, img, img_mask):
        nq = self.queries.shape[1]
        x = torch.cat([self.queries.expand(len(img), -1, -1), text_emb], dim=1)
        sm = to_additive(unified_mask(text_mask, nq), x.dtype)
        im = to_additive(img_mask, x.dtype)
        for l in self.layers:
            x = l(x, nq, sm, img, im)
        return x[:, :nq], x[:, nq:]


if __name__ == "__main__":
    f = QFormer()
    a, b = f(torch.randn(2, 4, 32), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]), torch.randn(2, 9, 24), torch.ones(2, 9))
    print(a.shape, b.shape)
