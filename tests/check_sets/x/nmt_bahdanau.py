import torch
import torch.nn as nn
import torch.nn.functional as F


class BahdanauAttention(nn.Module):
    """Additive attention, score(s, h_j) = v^T tanh(W s + U h_j)"""

    def __init__(self, units):
        super().__init__()
        self.W = nn.Linear(units, units)
        self.U = nn.Linear(units, units)
        self.v = nn.Linear(units, 1)

    def forward(self, hidden, enc_output):
        # hidden: (1, batch, units); enc_output: (batch, src_len, units)
        query = hidden[-1].unsqueeze(1)
        score = self.v(self.W(query) + self.U(enc_output))
        attention_weights = F.softmax(score, dim=1)          # (batch, src_len, 1)
        context = (attention_weights * enc_output).sum(1)
        return context, attention_weights.squeeze(-1)


class Encoder(nn.Module):
    def __init__(self, vocab, emb, units):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.gru = nn.GRU(emb, units, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class Decoder(nn.Module):
    def __init__(self, vocab, emb, units):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.attention = BahdanauAttention(units)
        self.gru = nn.GRU(emb + units, units, batch_first=True)
        self.fc = nn.Linear(units, vocab)

    def forward(self, x, hidden, enc_output):
        context, w = self.attention(hidden, enc_output)
        x = torch.cat([context.unsqueeze(1), self.embedding(x)], dim=-1)
        out, hidden = self.gru(x, hidden)
        return self.fc(out.squeeze(1)), hidden, w


class Seq2Seq(nn.Module):
    """Spanish -> English toy translator, teacher forcing"""

    def __init__(self, src_vocab=40, tgt_vocab=35, emb=12, units=20):
        super().__init__()
        self.encoder = Encoder(src_vocab, emb, units)
        self.decoder = Decoder(tgt_vocab, emb, units)

    def forward(self, src, tgt):
        enc_output, hidden = self.encoder(src)
        logits, weights = [], []
        for t in range(tgt.size(1)):
            step, hidden, w = self.decoder(tgt[:, t:t + 1], hidden, enc_output)
            logits.append(step)
            weights.append(w)
        return torch.stack(logits, 1), torch.stack(weights, 1)
