"""Chat bot tutorial, part 2: decoder with Luong's three scoring functions."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Scorer(nn.Module):
    def __init__(self, method, hidden):
        super().__init__()
        self.method = method
        if method == "general":
            self.W = nn.Linear(hidden, hidden, bias=False)
        elif method == "concat":
            self.W = nn.Linear(2 * hidden, hidden)
            self.v = nn.Parameter(torch.randn(hidden) * hidden ** -0.5)

    def forward(self, h, enc):
        # h (B, H), enc (B, S, H) -> (B, S)
        if self.method == "dot":
            return torch.einsum("bh,bsh->bs", h, enc)
        if self.method == "general":
            return torch.einsum("bh,bsh->bs", h, self.W(enc))
        pair = torch.cat([h[:, None].expand_as(enc), enc], dim=-1)
        return torch.tanh(self.W(pair)) @ self.v


class LuongDecoder(nn.Module):
    def __init__(self, method="general", vocab=40, hidden=32, p=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.drop = nn.Dropout(p)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.score = Scorer(method, hidden)
        self.concat = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, word, state, enc, lengths):
        """word (B,), state: LSTM state or None, enc (B, S, H), lengths (B,)"""
        o, state = self.lstm(self.drop(self.embed(word))[:, None], state)
        h = o[:, 0]
        s = self.score(h, enc)
        inside = torch.arange(enc.size(1), device=enc.device)[None] < lengths[:, None]
        s = s.masked_fill(~inside, torch.finfo(s.dtype).min)
        w = F.softmax(s, dim=-1)
        ctx = (w[..., None] * enc).sum(1)
        h_tilde = torch.tanh(self.concat(torch.cat([ctx, h], -1)))
        return self.out(h_tilde), state, w
