import random
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """Additive attention (Bahdanau et al. 2015)"""

    def __init__(self, enc_hid_dim, dec_hid_dim, attn_dim):
        super().__init__()
        self.attn = nn.Linear(enc_hid_dim * 2 + dec_hid_dim, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, hidden, encoder_outputs, mask):
        # hidden = [batch size, dec hid dim]
        # encoder_outputs = [src len, batch size, enc hid dim * 2]
        # mask = [batch size, src len], False at <pad>; every source has a word
        src_len = encoder_outputs.shape[0]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        encoder_outputs = encoder_outputs.permute(1, 0, 2)
        energy = self.attn(torch.cat((hidden, encoder_outputs), dim=2))
        # energy = [batch size, src len, attn dim]
        attention = self.v(energy).squeeze(2)
        attention = attention.masked_fill(mask == 0, float("-inf"))
        return F.softmax(attention, dim=1)


class Decoder(nn.Module):
    def __init__(self, output_dim, emb_dim, enc_hid_dim, dec_hid_dim, dropout, attention):
        super().__init__()
        self.output_dim = output_dim
        self.attention = attention
        self.embedding = nn.Embedding(output_dim, emb_dim)
        self.rnn = nn.GRU(enc_hid_dim * 2 + emb_dim, dec_hid_dim)
        self.fc_out = nn.Linear(enc_hid_dim * 2 + dec_hid_dim + emb_dim, output_dim)
        self.dropout = nn.Dropout(dropout)

    def step(self, tok, hidden, enc, mask):
        embedded = self.dropout(self.embedding(tok.unsqueeze(0)))
        a = self.attention(hidden, enc, mask).unsqueeze(1)
        weighted = torch.bmm(a, enc.permute(1, 0, 2)).permute(1, 0, 2)
        output, hidden = self.rnn(torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0))
        pred = self.fc_out(torch.cat((output, weighted, embedded), dim=2).squeeze(0))
        return pred, hidden.squeeze(0), a.squeeze(1)

    def forward(self, trg, hidden, enc, mask, teacher_forcing=1.0):
        outs, tok = [], trg[0]
        for t in range(1, trg.shape[0]):
            pred, hidden, _ = self.step(tok, hidden, enc, mask)
            outs.append(pred)
            tok = trg[t] if random.random() < teacher_forcing else pred.argmax(1)
        return torch.stack(outs)
