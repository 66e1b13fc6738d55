"""Grapheme-to-phoneme conversion. BiLSTM encoder, LSTM decoder with attention.

At every output step the decoder compares its hidden state with each encoder frame
(content-based attention, Bahdanau et al. 2015), and reads the weighted mean.
"""
import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, enc, dec, max_len):
        super().__init__()
        self.proj = nn.Linear(dec, dec)
        self.score = nn.Linear(dec, max_len)

    def forward(self, hidden, frames, pad):
        """hidden (B, dec), frames (B, T, enc), pad (B, T) True on padding"""
        e = self.score(torch.tanh(self.proj(hidden)))[:, : frames.size(1)]
        e = e.masked_fill(pad, float("-inf"))
        w = torch.softmax(e, dim=-1)
        return torch.bmm(w.unsqueeze(1), frames).squeeze(1), w


class G2P(nn.Module):
    """letters (B, T) with 0 = padding (at the end, words aren't empty); phones (B, S) for
    teacher forcing -> logits (B, S, n_phones)"""

    def __init__(self, n_letters=30, n_phones=20, hid=24, max_len=32):
        super().__init__()
        self.le = nn.Embedding(n_letters, 16, padding_idx=0)
        self.pe = nn.Embedding(n_phones, 16)
        self.enc = nn.LSTM(16, hid // 2, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(16 + hid, hid)
        self.attn = Attn(hid, hid, max_len)
        self.out = nn.Linear(2 * hid, n_phones)
        self.hid = hid

    def forward(self, letters, phones):
        pad = letters == 0
        packed = nn.utils.rnn.pack_padded_sequence(
            self.le(letters), (~pad).sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        frames, _ = nn.utils.rnn.pad_packed_sequence(
            self.enc(packed)[0], batch_first=True, total_length=letters.size(1)
        )
        h = c = frames.new_zeros(letters.size(0), self.hid)
        ys = []
        for s in range(phones.size(1)):
            ctx, _ = self.attn(h, frames, pad)
            h, c = self.cell(torch.cat([self.pe(phones[:, s]), ctx], -1), (h, c))
            ys.append(self.out(torch.cat([h, ctx], -1)))
        return torch.stack(ys, 1)
