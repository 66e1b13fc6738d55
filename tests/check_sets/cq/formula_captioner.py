"""Image-to-LaTeX decoder: LSTM with soft attention over the CNN feature grid."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GridAttention(nn.Module):
    """Additive (Bahdanau-style) attention.

    hidden: (B, dec_dim) the LSTM state
    grid: (B, P, enc_dim) flattened feature map
    mask: (B, P) bool, True = cell is inside the formula (at least one is)
    returns context (B, enc_dim), alpha (B, P)
    """

    def __init__(self, enc_dim=24, dec_dim=32, attn_dim=20):
        super().__init__()
        self.attn = nn.Linear(enc_dim + dec_dim, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, hidden, grid, mask=None):
        P = grid.size(1)
        hidden = hidden.unsqueeze(1).expand(-1, P, -1)
        energy = self.attn(torch.cat((hidden, grid), dim=2))
        energy = self.v(energy).squeeze(2)
        if mask is not None:
            energy = energy.masked_fill(~mask, float("-inf"))
        alpha = F.softmax(energy, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), grid).squeeze(1)
        return context, alpha


class FormulaDecoder(nn.Module):
    def __init__(self, vocab=40, emb=16, enc_dim=24, dec_dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.init_h = nn.Linear(enc_dim, dec_dim)
        self.init_c = nn.Linear(enc_dim, dec_dim)
        self.cell = nn.LSTMCell(emb + enc_dim, dec_dim)
        self.attention = GridAttention(enc_dim, dec_dim)
        self.beta = nn.Linear(dec_dim, enc_dim)
        self.out = nn.Linear(dec_dim + enc_dim, vocab)

    def forward(self, feature_map, tokens, mask=None):
        """feature_map (B, enc_dim, H, W), tokens (B, T) -> logits (B, T, vocab)"""
        grid = feature_map.flatten(2).transpose(1, 2)
        mean = grid.mean(1)
        h, c = torch.tanh(self.init_h(mean)), torch.tanh(self.init_c(mean))
        logits = []
        for tok in self.embed(tokens).unbind(1):
            context, _ = self.attention(h, grid, mask)
            context = torch.sigmoid(self.beta(h)) * context
            h, c = self.cell(torch.cat([tok, context], dim=1), (h, c))
            logits.append(self.out(torch.cat([h, context], dim=1)))
        return torch.stack(logits, dim=1)
