"""Character-level French -> English decoder with attention.

    token     (B,)           previous character
    hidden    (1, B, H)      GRU state
    notes     (B, L, H)      annotations (encoder outputs), padded to MAX_LENGTH = L
    present   (B, L)         1.0 for a real annotation, 0.0 for padding
    returns   log-probabilities (B, V), hidden (1, B, H), weights (B, L)

The weight of an annotation depends on how well THAT annotation fits the embedded token and the
decoder state; the weights of the real annotations add up to one and padding has none.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_LENGTH = 10


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1, max_length=MAX_LENGTH):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attn = nn.Linear(hidden_size * 2, max_length)
        self.attn_combine = nn.Linear(hidden_size * 2, hidden_size)
        self.dropout = nn.Dropout(dropout_p)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, token, hidden, notes, present):
        embedded = self.dropout(self.embedding(token))
        attn_weights = F.softmax(self.attn(torch.cat((embedded, hidden[0]), 1)), dim=1)
        attn_weights = attn_weights * present
        attn_applied = torch.bmm(attn_weights.unsqueeze(1), notes).squeeze(1)

        x = F.relu(self.attn_combine(torch.cat((embedded, attn_applied), 1)))
        output, hidden = self.gru(x.unsqueeze(0), hidden)
        return F.log_softmax(self.out(output[0]), dim=1), hidden, attn_weights
