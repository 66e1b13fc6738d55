"""NMT Deutsch -> Englisch with a GRU and Bahdanau attention (course project, Multi30k).

Paper: "Neural Machine Translation by Jointly Learning to Align and Translate", appendix A.
Shapes are time-major as in the rest of the course: [len, batch, dim].
"""
import random

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab, emb, enc_hid, dec_hid, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, enc_hid, bidirectional=True)
        self.fc = nn.Linear(enc_hid * 2, dec_hid)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, src_len):
        x = self.dropout(self.embedding(src))
        packed = nn.utils.rnn.pack_padded_sequence(x, src_len.cpu(), enforce_sorted=False)
        out, hidden = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, total_length=src.shape[0])
        return out, torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))


class Attention(nn.Module):
    """Additive attention of Bahdanau et al. over the encoder states."""

    def __init__(self, enc_hid, dec_hid):
        super().__init__()
        self.attn = nn.Linear(enc_hid * 2 + dec_hid, dec_hid)
        self.v = nn.Linear(dec_hid, 1, bias=False)

    def forward(self, hidden, encoder_outputs, mask):
        # hidden [B, dec]; encoder_outputs [S, B, 2*enc]; mask [B, S], 0 on <pad>
        src_len = encoder_outputs.shape[0]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        encoder_outputs = encoder_outputs.permute(1, 0, 2)
        energy = self.attn(torch.cat((hidden, encoder_outputs), dim=2))
        attention = self.v(energy).squeeze(2)
        attention = attention.masked_fill(mask == 0, -1e10)
        return torch.softmax(attention, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab, emb, enc_hid, dec_hid, attention, dropout=0.0):
        super().__init__()
        self.vocab = vocab
        self.attention = attention
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(enc_hid * 2 + emb, dec_hid)
        self.fc_out = nn.Linear(enc_hid * 2 + dec_hid + emb, vocab)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token, hidden, encoder_outputs, mask):
        e = self.dropout(self.embedding(token.unsqueeze(0)))
        a = self.attention(hidden, encoder_outputs, mask).unsqueeze(1)
        weighted = torch.bmm(a, encoder_outputs.permute(1, 0, 2)).permute(1, 0, 2)
        out, h = self.rnn(torch.cat((e, weighted), dim=2), hidden.unsqueeze(0))
        pred = self.fc_out(torch.cat((out[0], weighted[0], e[0]), dim=1))
        return pred, h.squeeze(0), a.squeeze(1)


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, pad_idx):
        super().__init__()
        self.encoder, self.decoder, self.pad_idx = encoder, decoder, pad_idx

    def forward(self, src, src_len, trg, teacher_forcing=0.5):
        T, B = trg.shape
        outputs = torch.zeros(T, B, self.decoder.vocab, device=src.device)
        enc, hidden = self.encoder(src, src_len)
        mask = (src != self.pad_idx).permute(1, 0)
        tok = trg[0]
        for t in range(1, T):
            pred, hidden, _ = self.decoder(tok, hidden, enc, mask)
            outputs[t] = pred
            tok = trg[t] if random.random() < teacher_forcing else pred.argmax(1)
        return outputs
