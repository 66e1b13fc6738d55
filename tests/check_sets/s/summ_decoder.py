import torch
import torch.nn as nn


class SummaryDecoder(nn.Module):
    """LSTM decoder with dot attention over the article and input feeding.

    enc      [S, B, H]  encoder states (time first)
    src_len  [B]
    trg      [T, B]     gold summary, teacher forcing
    """

    def __init__(self, vocab, emb=24, hid=40):
        super().__init__()
        self.hid = hid
        self.emb = nn.Embedding(vocab, emb)
        self.rnn = nn.LSTMCell(emb + hid, hid)
        self.mix = nn.Linear(2 * hid, hid, bias=False)
        self.out = nn.Linear(hid, vocab)

    def attend(self, h, enc, pad):
        scores = torch.einsum("bh,sbh->bs", h, enc)
        scores.masked_fill(pad, float("-inf"))
        return torch.softmax(scores, dim=1)

    def forward(self, enc, src_len, trg, state):
        S, B, _ = enc.shape
        pad = torch.arange(S, device=enc.device).unsqueeze(0) >= src_len.unsqueeze(1)
        h, c = state
        feed = enc.new_zeros(B, self.hid)
        logits = []
        for y in self.emb(trg):
            h, c = self.rnn(torch.cat((y, feed), 1), (h, c))
            a = self.attend(h, enc, pad)
            ctx = torch.einsum("bs,sbh->bh", a, enc)
            feed = torch.tanh(self.mix(torch.cat((ctx, h), 1)))
            logits.append(self.out(feed))
        return torch.stack(logits)
