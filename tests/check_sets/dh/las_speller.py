import torch
from torch import nn


class SpellerStep(nn.Module):
    """One step of the speller (listen-attend-spell with location features).

    tok   (B,)            previous character ids
    enc   (B, T, enc_dim) listener output, enc_len (B,) with enc_len >= 1
    state (h, c, w, ctx)  from the last step or None
    returns logits (B, vocab), new state; w (B, T) sums to one
    """

    def __init__(self, vocab, enc_dim=24, hid=32, att=20, kernel=5):
        super().__init__()
        self.hid, self.enc_dim = hid, enc_dim
        self.emb = nn.Embedding(vocab, hid)
        self.cell = nn.LSTMCell(hid + enc_dim, hid)
        self.w_dec = nn.Linear(hid, att, bias=False)
        self.w_enc = nn.Linear(enc_dim, att)
        self.conv = nn.Conv1d(1, 8, kernel, padding=kernel // 2, bias=False)
        self.w_loc = nn.Linear(8, att, bias=False)
        self.v = nn.Linear(att, 1, bias=False)
        self.out = nn.Linear(hid + enc_dim, vocab)

    def forward(self, tok, enc, enc_len, state=None):
        b, t, _ = enc.shape
        real = torch.arange(t, device=enc.device)[None] < enc_len[:, None]
        if state is None:
            h = enc.new_zeros(b, self.hid)
            c = enc.new_zeros(b, self.hid)
            w = real.to(enc.dtype) / enc_len[:, None]
            ctx = enc.new_zeros(b, self.enc_dim)
        else:
            h, c, w, ctx = state
        h, c = self.cell(torch.cat([self.emb(tok), ctx], dim=-1), (h, c))
        loc = self.w_loc(self.conv(w[:, None]).transpose(1, 2))
        e = self.v(torch.tanh(self.w_dec(h)[:, None] + self.w_enc(enc) + loc)).squeeze(-1)
        e = e.masked_fill(~real, float("-inf"))
        w = torch.softmax(e, dim=-1)
        ctx = torch.bmm(w[:, None], enc).squeeze(1)
        return self.out(torch.cat([h, ctx], dim=-1)), (h, c, w, ctx)
