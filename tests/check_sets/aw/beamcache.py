"""Caption decoder with incremental state; beams are rows of the batch (B * beam)."""
import torch
from torch import nn


class StepSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def _heads(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, state):
        """x [R, n, dim]: the newest n positions.  state: dict with 'k', 'v' or empty.
        Position t sees every position up to and with t."""
        q, k, v = self._heads(self.q(x)), self._heads(self.k(x)), self._heads(self.v(x))
        if "k" in state:
            k = torch.cat([state["k"], k], dim=2)
            v = torch.cat([state["v"], v], dim=2)
        state["k"], state["v"] = k, v
        n, m = q.size(2), k.size(2)
        logits = q @ k.mT / (q.size(-1) ** 0.5)
        future = torch.ones(n, m, dtype=torch.bool, device=x.device).triu(m - n + 1)
        logits = logits.masked_fill(future, float("-inf"))
        ctx = logits.softmax(-1) @ v
        return self.o(ctx.transpose(1, 2).flatten(2))

    @staticmethod
    def reorder(state, rows):
        for name in list(state):
            state[name] = state[name].index_select(0, rows)


class Captioner(nn.Module):
    def __init__(self, vocab, dim=16, heads=2, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.att = StepSelfAttention(dim, heads)
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def step(self, ids, state, at):
        x = self.tok(ids) + self.pos(torch.arange(at, at + ids.size(1), device=ids.device))
        x = x + self.att(self.ln(x), state)
        return self.head(x)

    @torch.no_grad()
    def beam(self, B, beam=3, bos=1, steps=8):
        ids = torch.full((B * beam, 1), bos, dtype=torch.long)
        score = torch.full((B, beam), float("-inf"))
        score[:, 0] = 0.0
        state = {}
        for t in range(steps):
            lp = self.step(ids[:, -1:], state, t)[:, -1].log_softmax(-1)
            V = lp.size(-1)
            total = (score.view(-1, 1) + lp).view(B, beam * V)
            score, best = total.topk(beam, dim=-1)
            rows = (best // V + torch.arange(B)[:, None] * beam).view(-1)
            StepSelfAttention.reorder(state, rows)
            ids = torch.cat([ids[rows], (best % V).view(-1, 1)], dim=1)
        return ids.view(B, beam, -1), score
