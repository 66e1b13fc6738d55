"""Pirate GPT: a tiny GPT that talks like a pirate, arrr.

    ids  (B, T) int64, T <= block
    out  (B, T, vocab) logits; position t only depends on ids[:, :t+1].

Everything is the usual pre-norm GPT-2 recipe: learned positions, per-head
softmax(q k^T / sqrt(head_dim)) v, GELU mlp, tied embedding / output matrix.
Dropout only when the model is in train() mode.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Yarr(nn.Module):
    """Causal self-attention with one fused projection, laid out [all q | all k | all v]."""

    def __init__(self, c, nh, p):
        super().__init__()
        assert c % nh == 0
        self.nh, self.p = nh, p
        self.w_in = nn.Linear(c, 3 * c, bias=False)
        self.w_out = nn.Linear(c, c, bias=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.w_in(x).split(c, dim=2)
        q, k, v = (z.reshape(b, t, self.nh, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True
        )
        y = y.transpose(1, 2).reshape(b, t, c)
        return F.dropout(self.w_out(y), self.p, self.training)


class PirateGPT(nn.Module):
    def __init__(self, vocab=64, block=32, c=32, nh=4, layers=2, p=0.1):
        super().__init__()
        self.block = block
        self.tok = nn.Embedding(vocab, c)
        self.pos = nn.Embedding(block, c)
        self.drop = nn.Dropout(p)
        self.att = nn.ModuleList([Yarr(c, nh, p) for _ in range(layers)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c), nn.Dropout(p)) for _ in range(layers)]
        )
        self.ln_a = nn.ModuleList([nn.LayerNorm(c) for _ in range(layers)])
        self.ln_m = nn.ModuleList([nn.LayerNorm(c) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(c)
        self.lm = nn.Linear(c, vocab, bias=False)
        self.lm.weight = self.tok.weight

    def forward(self, ids):
        t = ids.shape[1]
        x = self.drop(self.tok(ids) + self.pos(torch.arange(t, device=ids.device)))
        for a, m, la, lm in zip(self.att, self.mlp, self.ln_a, self.ln_m):
            x = x + a(la(x))
            x = x + m(lm(x))
        return self.lm(self.ln_f(x))

    @torch.no_grad()
    def babble(self, ids, n):
        for _ in range(n):
            nxt = self(ids[:, -self.block:])[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], 1)
        return ids
