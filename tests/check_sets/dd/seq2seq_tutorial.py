import torch
import torch.nn as nn


class Alignment(nn.Module):
    """Additive attention of Bahdanau et al.: energy = v^T tanh(W_a s + U_a h)."""

    def __init__(self, size):
        super().__init__()
        self.Wa = nn.Linear(size, size)
        self.Ua = nn.Linear(size, size)
        self.Va = nn.Linear(size, 1)

    def forward(self, query, keys):
        # query (B, 1, size), keys (B, S, size)
        scores = self.Va(self.Wa(query) + self.Ua(keys))
        weights = torch.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size=32, output_size=90, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = Alignment(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, encoder_outputs, encoder_hidden, target):
        """encoder_outputs (B, S, hidden), encoder_hidden (1, B, hidden), target (B, T) teacher tokens"""
        hidden, preds, maps = encoder_hidden, [], []
        for t in range(target.size(1)):
            step, hidden, w = self.forward_step(target[:, t : t + 1], hidden, encoder_outputs)
            preds.append(step)
            maps.append(w)
        return torch.log_softmax(torch.cat(preds, dim=1), dim=-1), torch.cat(maps, dim=1)

    def forward_step(self, token, hidden, encoder_outputs):
        embedded = self.dropout(self.embedding(token))
        context, w = self.attention(hidden.permute(1, 0, 2), encoder_outputs)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, w
