"""Captioner with Luong attention over grid cells, several heads.

After the GRU step the hidden state h_t scores every cell s with the "general"
form, one bilinear map per head:

    score_m(t, s) = h_t^T W_m f_s         a_m = softmax_s(score_m)
    c_t = [ sum_s a_1(s) V_1 f_s ; ... ; sum_s a_M(s) V_M f_s ]

followed by the attentional vector  h~_t = tanh(W_c [c_t ; h_t]),  which predicts
the word and is fed into the next step (input feeding).
"""
import torch
import torch.nn as nn


class GridAttention(nn.Module):
    def __init__(self, hid, feat, heads):
        super().__init__()
        self.heads = heads
        self.general = nn.Linear(feat, heads * hid, bias=False)
        self.value = nn.Linear(feat, hid, bias=False)

    def forward(self, h, cells):
        # h: (B, hid), cells: (B, S, feat)
        b, s, _ = cells.shape
        keys = self.general(cells).view(b, s, self.heads, -1)
        vals = self.value(cells).view(b, s, self.heads, -1)
        score = torch.einsum("bd,bsmd->bms", h, keys)
        a = torch.softmax(score.reshape(b, -1), dim=-1).view_as(score)
        c = torch.einsum("bms,bsmd->bmd", a, vals)
        return c.reshape(b, -1), a


class LuongCaptioner(nn.Module):
    def __init__(self, vocab=80, emb=24, hid=32, feat=28, heads=2):
        super().__init__()
        self.hid = hid
        self.embed = nn.Embedding(vocab, emb)
        self.rnn = nn.GRUCell(emb + hid, hid)
        self.attend = GridAttention(hid, feat, heads)
        self.w_c = nn.Linear(2 * hid, hid, bias=False)
        self.predict = nn.Linear(hid, vocab)
        self.bridge = nn.Linear(feat, hid)

    def begin(self, cells):
        h = torch.tanh(self.bridge(cells.mean(1)))
        return h, torch.zeros_like(h)

    def step(self, word, state, cells):
        """word (B,), state = (h, fed) -> logits (B, vocab), state, a (B, heads, S)"""
        h, fed = state
        h = self.rnn(torch.cat([self.embed(word), fed], dim=-1), h)
        c, a = self.attend(h, cells)
        attentional = self.w_c(torch.cat([c, h], dim=-1))
        return self.predict(attentional), (h, attentional), a

    def forward(self, cells, words):
        """cells (B, S, feat), words (B, T) -> logits (B, T, vocab)"""
        state = self.begin(cells)
        logits = []
        for w in words.unbind(1):
            y, state, _ = self.step(w, state, cells)
            logits.append(y)
        return torch.stack(logits, dim=1)

    @torch.no_grad()
    def describe(self, cells, bos=1, eos=2, max_len=15):
        state, word, out = self.begin(cells), cells.new_full((len(cells),), bos).long(), []
        for _ in range(max_len):
            y, state, _ = self.step(word, state, cells)
            word = y.argmax(-1)
            out.append(word)
            if bool((word == eos).all()):
                break
        return torch.stack(out, dim=1)
