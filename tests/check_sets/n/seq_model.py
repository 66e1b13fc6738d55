import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(pos / 10000^(2i / d))"""

    def __init__(self, d_model, max_len=100):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        two_i = torch.arange(0, d_model, 2)
        div_term = torch.exp(-math.log(10000.0) * 2 * two_i / d_model)
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class SentenceEncoder(nn.Module):
    def __init__(self, vocab=60, d_model=16, nhead=2, nlayers=2):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab, d_model)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, nlayers)

    def forward(self, tokens):
        x = self.pos(self.embedding(tokens) * math.sqrt(self.d_model))
        return self.encoder(x)
