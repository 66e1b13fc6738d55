"""Course notes, week 9: a tiny translation transformer.

The encoder reads the whole source. The decoder is trained with teacher forcing: it gets
the target shifted by one and must predict the next word at every position, so the
states at position t may depend on target words 0..t only.
"""
import torch
import torch.nn as nn


class Attention(nn.Module):
    """q_in (B, T, D), kv_in (B, S, D), allowed broadcastable to (B, H, T, S), bool,
    True = may be attended to, or None = everything."""

    def __init__(self, D, H):
        super().__init__()
        self.H = H
        self.wq, self.wk = nn.Linear(D, D), nn.Linear(D, D)
        self.wv, self.wo = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, q_in, kv_in, allowed=None):
        q, k, v = (w(t).unflatten(-1, (self.H, -1)).transpose(1, 2)
                   for w, t in ((self.wq, q_in), (self.wk, kv_in), (self.wv, kv_in)))
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if allowed is not None:
            s = s.masked_fill(~allowed, float("-inf"))
        y = torch.softmax(s, dim=-1) @ v
        return self.wo(y.transpose(1, 2).flatten(2))


class TinyTranslator(nn.Module):
    """src (B, S), tgt (B, T): token ids, 0 = padding at the end of src (tgt has none).

    Returns logits (B, T, vocab); logits[:, t] predicts tgt[:, t + 1] and depends on the
    real source tokens (at least one per row) and on tgt[:, :t + 1] only.
    """

    def __init__(self, vocab, D=32, H=4, max_len=30):
        super().__init__()
        self.tok = nn.Embedding(vocab, D)
        self.pos = nn.Embedding(max_len, D)
        self.enc_att = Attention(D, H)
        self.dec_att = Attention(D, H)
        self.cross_att = Attention(D, H)
        self.ff1 = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))
        self.ff2 = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))
        self.n = nn.ModuleList(nn.LayerNorm(D) for _ in range(5))
        self.out = nn.Linear(D, vocab)

    def embed(self, ids):
        return self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))

    def forward(self, src, tgt):
        real = (src != 0)[:, None, None, :]
        m = self.embed(src)
        m = self.n[0](m + self.enc_att(m, m, real))
        m = self.n[1](m + self.ff1(m))

        y = self.embed(tgt)
        y = self.n[2](y + self.dec_att(y, y))
        y = self.n[3](y + self.cross_att(y, m, real))
        y = self.n[4](y + self.ff2(y))
        return self.out(y)
