"""Seq2seq z uwagą Bahdanau: tłumacz niemiecki -> angielski (Multi30k).

Dekoder zwraca w każdym kroku logity, nowy stan oraz wagi uwagi [B, S]
(sumują się do 1), z których rysujemy mapę dopasowania słów.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab, emb, enc_hid, dec_hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, enc_hid, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * enc_hid, dec_hid)

    def forward(self, src):
        outputs, hidden = self.rnn(self.embedding(src))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, enc_dim, dec_hid):
        super().__init__()
        self.attn = nn.Linear(enc_dim + dec_hid, dec_hid)
        self.v = nn.Linear(dec_hid, 1, bias=False)

    def forward(self, hidden, encoder_outputs, mask):
        # hidden [B, D], encoder_outputs [B, S, E], mask [B, S]: True = słowo, False = <pad>
        src_len = encoder_outputs.shape[1]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        energy = torch.tanh(self.attn(torch.cat((hidden, encoder_outputs), dim=2)))
        attention = self.v(energy).squeeze(2)
        attention = attention.masked_fill(mask, -1e10)
        weights = F.softmax(attention, dim=1)
        context = torch.bmm(weights.unsqueeze(1), encoder_outputs).squeeze(1)
        return context, attention


class Decoder(nn.Module):
    def __init__(self, vocab=40, emb=12, enc_dim=20, dec_hid=16, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.attention = Attention(enc_dim, dec_hid)
        self.rnn = nn.GRUCell(enc_dim + emb, dec_hid)
        self.fc_out = nn.Linear(enc_dim + dec_hid + emb, vocab)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token, hidden, encoder_outputs, mask):
        """token [B]; zwraca (logity [B, V], stan [B, D], wagi [B, S])."""
        embedded = self.dropout(self.embedding(token))
        context, a = self.attention(hidden, encoder_outputs, mask)
        hidden = self.rnn(torch.cat((embedded, context), dim=1), hidden)
        logits = self.fc_out(torch.cat((hidden, context, embedded), dim=1))
        return logits, hidden, a


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab=40, trg_vocab=40, pad_idx=1):
        super().__init__()
        self.encoder = Encoder(src_vocab, 12, 10, 16)
        self.decoder = Decoder(trg_vocab)
        self.pad_idx = pad_idx

    def forward(self, src, trg, teacher_forcing=0.5):
        mask = src != self.pad_idx
        enc, hidden = self.encoder(src)
        token, logits, maps = trg[:, 0], [], []
        for t in range(1, trg.shape[1]):
            out, hidden, a = self.decoder(token, hidden, enc, mask)
            logits.append(out)
            maps.append(a)
            use_gold = torch.rand(1).item() < teacher_forcing
            token = trg[:, t] if use_gold else out.argmax(1)
        return torch.stack(logits, 1), torch.stack(maps, 1)
