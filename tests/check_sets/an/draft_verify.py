"""Scoring of gamma draft tokens by the target model (speculative sampling)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TargetAttention(nn.Module):
    """Causal self attention with an explicit (k, v) cache of the accepted prefix.

    x holds the newest tokens only; new token t sees the whole prefix and new tokens <= t.
    """

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.n_head, -1).transpose(1, 2) for z in (q, k, v))
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        s = torch.einsum("bhid,bhjd->bhij", q, k) / q.size(-1) ** 0.5
        tri = torch.ones(t, k.size(2), dtype=torch.bool, device=x.device).tril()
        s = s.masked_fill(~tri, float("-inf"))
        y = torch.einsum("bhij,bhjd->bhid", F.softmax(s, dim=-1), v)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class TargetModel(nn.Module):
    def __init__(self, vocab, d_model=32, n_head=4, depth=2, max_len=256):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.ln = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(depth))
        self.att = nn.ModuleList(TargetAttention(d_model, n_head) for _ in range(depth))
        self.head = nn.Linear(d_model, vocab)

    def forward(self, ids, caches=None):
        past = 0 if caches is None else caches[0][0].size(2)
        x = self.tok(ids) + self.pos(torch.arange(past, past + ids.size(1), device=ids.device))
        new = []
        for i, (ln, att) in enumerate(zip(self.ln, self.att)):
            y, c = att(ln(x), None if caches is None else caches[i])
            x = x + y
            new.append(c)
        return self.head(x), new


def accept(draft_probs, target_probs, tokens, generator=None):
    """tokens (gamma,), probs (gamma, V) -> number of accepted tokens"""
    for n, t in enumerate(tokens.tolist()):
        r = torch.rand((), generator=generator)
        if r > target_probs[n, t] / draft_probs[n, t]:
            return n
    return len(tokens)


def crop(caches, n):
    return [(k[:, :, :n], v[:, :, :n]) for k, v in caches]
