"""Univariate time series forecasting with a Transformer encoder ("TransAm" style).

src: (L, N, 1), a normalised series, time first.  out[t] (L, N, 1) is the forecast of src[t + 1] and
uses src[0] ... src[t] only, so the loss can be taken at every step and the whole
window is trained at once.
"""
import math

import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=500):
        super(PositionalEncoding, self).__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer('pe', pe.unsqueeze(1))

    def forward(self, x):
        return x + self.pe[:x.size(0)]


class TransAm(nn.Module):
    def __init__(self, feature_size=32, nhead=4, num_layers=1, dropout=0.1):
        super(TransAm, self).__init__()
        self.src_mask = None
        self.input = nn.Linear(1, feature_size)
        self.pos_encoder = PositionalEncoding(feature_size)
        layer = nn.TransformerEncoderLayer(d_model=feature_size, nhead=nhead, dim_feedforward=64, dropout=dropout)
        self.transformer_encoder = nn.TransformerEncoder(layer, num_layers=num_layers)
        self.decoder = nn.Linear(feature_size, 1)

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            self.src_mask = self._generate_square_subsequent_mask(len(src)).to(src.device)
        x = self.pos_encoder(self.input(src))
        return self.decoder(self.transformer_encoder(x, self.src_mask))

    def _generate_square_subsequent_mask(self, sz):
        mask = (torch.triu(torch.ones(sz, sz), diagonal=-1) == 1).transpose(0, 1)
        mask = mask.float().masked_fill(mask == 0, float('-inf')).masked_fill(mask == 1, float(0.0))
        return mask
