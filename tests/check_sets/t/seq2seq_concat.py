import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    # Bahdanau (concat) score: v . W [hidden ; encoder_output]
    def __init__(self, hidden_size):
        super().__init__()
        self.attn = nn.Linear(hidden_size * 2, hidden_size)
        self.v = nn.Parameter(torch.rand(hidden_size) / hidden_size**0.5)

    def forward(self, hidden, encoder_outputs):
        # hidden (B, H), encoder_outputs (B, S, H) -> (B, S)
        S = encoder_outputs.size(1)
        h = hidden.unsqueeze(1).expand(-1, S, -1)
        energy = self.attn(torch.cat((h, encoder_outputs), dim=2))
        return F.softmax(energy @ self.v, dim=1)


class BahdanauDecoder(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.dropout = nn.Dropout(dropout_p)
        self.attn = Attn(hidden_size)
        self.gru = nn.GRU(hidden_size * 2, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size * 2, output_size)

    def step(self, word, last_hidden, encoder_outputs):
        emb = self.dropout(self.embedding(word)).unsqueeze(1)
        weights = self.attn(last_hidden[-1], encoder_outputs)
        context = weights.unsqueeze(1) @ encoder_outputs
        output, hidden = self.gru(torch.cat((emb, context), 2), last_hidden)
        logits = self.out(torch.cat((output, context), 2)).squeeze(1)
        return F.log_softmax(logits, dim=1), hidden, weights
