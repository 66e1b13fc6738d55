"""Перевод дат: seq2seq с вниманием Богданова (учебный проект, 3 курс).

На каждом шаге декодер сравнивает своё состояние с каждым выходом энкодера:

    e_j = score(s_{t-1}, y_{t-1}, h_j),   alpha = softmax(e),   c_t = sum_j alpha_j h_j

после чего c_t вместе с эмбеддингом y_{t-1} подаётся в GRU.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_LENGTH = 20


class EncoderRNN(nn.Module):
    def __init__(self, vocab_size, hidden_size):
        super(EncoderRNN, self).__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def forward(self, ids):
        return self.gru(self.embedding(ids))


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1, max_length=MAX_LENGTH):
        super(AttnDecoderRNN, self).__init__()
        self.max_length = max_length
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attn = nn.Linear(hidden_size * 2, max_length)
        self.attn_combine = nn.Linear(hidden_size * 2, hidden_size)
        self.dropout = nn.Dropout(dropout_p)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, token, hidden, encoder_outputs):
        """token: (B,), hidden: (1, B, H), encoder_outputs: (B, T, H), T <= max_length."""
        emb = self.dropout(self.embedding(token))
        T = encoder_outputs.size(1)

        # оценки для всех позиций входа
        scores = self.attn(torch.cat((emb, hidden[0]), dim=1))[:, :T]
        weights = F.softmax(scores, dim=1)
        context = torch.bmm(weights.unsqueeze(1), encoder_outputs).squeeze(1)

        x = self.attn_combine(torch.cat((emb, context), dim=1)).relu()
        output, hidden = self.gru(x.unsqueeze(1), hidden)
        return F.log_softmax(self.out(output[:, 0]), dim=1), hidden, weights


def translate(encoder, decoder, ids, bos, steps):
    enc, h = encoder(ids)
    tok = torch.full((ids.size(0),), bos, dtype=torch.long)
    res = []
    for _ in range(steps):
        logp, h, _ = decoder(tok, h, enc)
        tok = logp.argmax(-1)
        res.append(tok)
    return torch.stack(res, dim=1)


if __name__ == "__main__":
    e, d = EncoderRNN(30, 16), AttnDecoderRNN(16, 12).eval()
    print(translate(e, d, torch.randint(0, 30, (2, 9)), bos=0, steps=5))
