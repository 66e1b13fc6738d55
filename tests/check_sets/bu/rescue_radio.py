#pragma once   (old habits)
"""
rescue_radio  -- mountain rescue: which earlier radio calls matter for this one?

Grouped-query attention.  `n_ops` query heads ("operators") share `n_ch` key/value
heads ("channels"); operator h listens to channel h // (n_ops / n_ch), as in the
checkpoint we fine-tune from.
"""
import torch
from torch import nn

SQUELCH = float("-inf")


class Call:
    """One decoded radio call."""
    __slots__ = ("speaker", "seconds", "tokens")

    def __init__(self, speaker, seconds, tokens):
        self.speaker, self.seconds, self.tokens = speaker, seconds, tokens


def collate(calls, pad=0):
    n = max(len(c.tokens) for c in calls)
    ids = torch.full((len(calls), n), pad, dtype=torch.long)
    for i, c in enumerate(calls):
        ids[i, :len(c.tokens)] = torch.tensor(c.tokens)
    return ids, ids != pad


class ChannelAttention(nn.Module):
    def __init__(self, width: int = 32, n_ops: int = 8, n_ch: int = 2):
        super().__init__()
        if n_ops % n_ch:
            raise ValueError("operators must divide evenly over channels")
        self.n_ops, self.n_ch = n_ops, n_ch
        self.hd = width // n_ops
        self.ask = nn.Linear(width, n_ops * self.hd, bias=False)
        self.key = nn.Linear(width, n_ch * self.hd, bias=False)
        self.val = nn.Linear(width, n_ch * self.hd, bias=False)
        self.say = nn.Linear(n_ops * self.hd, width, bias=False)

    def _heads(self, t, n):
        return t.view(t.size(0), t.size(1), n, self.hd).transpose(1, 2)

    def _share(self, t):
        """(B, n_ch, T, hd) -> (B, n_ops, T, hd)"""
        return t.repeat(1, self.n_ops // self.n_ch, 1, 1)

    def forward(self, x, heard=None):
        """x (B, T, width); heard (B, T) bool, True = real token."""
        q = self._heads(self.ask(x), self.n_ops)
        k = self._share(self._heads(self.key(x), self.n_ch))
        v = self._share(self._heads(self.val(x), self.n_ch))
        s = torch.matmul(q, k.transpose(-2, -1)) * self.hd ** -0.5
        if heard is not None:
            s = s.masked_fill(~heard[:, None, None, :], SQUELCH)
        y = torch.matmul(s.softmax(dim=-1), v)
        return self.say(y.transpose(1, 2).reshape(x.shape))


class UrgencyNet(nn.Module):
    def __init__(self, vocab=100, width=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, width, padding_idx=0)
        self.att = ChannelAttention(width)
        self.urgency = nn.Linear(width, 3)

    def forward(self, ids, heard):
        h = self.emb(ids)
        h = h + self.att(h, heard)
        h = (h * heard.unsqueeze(-1)).sum(1) / heard.sum(1, keepdim=True)
        return self.urgency(h)


if __name__ == "__main__":
    ids, ok = collate([Call("base", 3, [4, 8, 15]), Call("heli", 9, [16, 23, 42, 9, 7])])
    print(UrgencyNet()(ids, ok))
