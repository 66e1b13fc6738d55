"""Retrosynthesis: decoder layer with a KV cache for beam search.

Produkte -> Edukte als SMILES. Der Decoder wird Token fuer Token aufgerufen, nach
jedem Schritt ordnet die Strahlsuche die Hypothesen um (`beam_idx`).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CachedDecoderAttention(nn.Module):
    """step(x, cache, beam_idx) = attention of one new token per hypothesis over the
    hypothesis' own history (itself included).

    x        (beams, 1, dim)
    cache    dict, empty at the start; filled in here
    beam_idx (beams,) row of the last step from which each hypothesis continues, None
             if nothing was reordered
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim)

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, cache, beam_idx=None):
        q = self._split(self.q_proj(x))
        k = self._split(self.k_proj(x))
        v = self._split(self.v_proj(x))
        if cache:
            past_k, past_v = cache["k"], cache["v"]
            if beam_idx is not None:
                past_k = past_k.index_select(0, beam_idx)
            k = torch.cat((past_k, k), dim=2)
            v = torch.cat((past_v, v), dim=2)
        cache["k"], cache["v"] = k, v
        y = F.scaled_dot_product_attention(q, k, v)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class RetroDecoder(nn.Module):
    def __init__(self, vocab=40, dim=48, heads=4, depth=2, max_len=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.att = nn.ModuleList(CachedDecoderAttention(dim, heads) for _ in range(depth))
        self.nrm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.out = nn.Linear(dim, vocab)

    def step(self, tok, t, product, caches, beam_idx=None):
        x = self.emb(tok)[:, None] + self.pos.weight[t] + product
        for a, n, c in zip(self.att, self.nrm, caches):
            x = x + a(n(x), c, beam_idx)
        return self.out(x[:, 0]).log_softmax(-1)

    @torch.no_grad()
    def beam_search(self, product, bos, width=4, steps=20):
        """product (1, 1, dim) embedding of the target molecule"""
        tok = torch.full((width,), bos)
        score = torch.tensor([0.0] + [-1e30] * (width - 1))
        seqs, caches, idx = tok[:, None], [{} for _ in self.att], None
        for t in range(steps):
            lp = self.step(tok, t, product, caches, idx)
            total = (score[:, None] + lp).flatten()
            score, flat = total.topk(width)
            idx = torch.div(flat, lp.shape[1], rounding_mode="floor")
            tok = flat % lp.shape[1]
            seqs = torch.cat((seqs[idx], tok[:, None]), dim=1)
        return seqs, score
