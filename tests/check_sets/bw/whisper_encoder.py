"""Encoder di Whisper riscritto per il fine-tuning su dialetti italiani.

Rispetto all'originale c'è un dropout (anche sui pesi di attenzione) usato solo
in addestramento. Ingresso: log-mel (B, n_mels, T); uscita: (B, T/2, d).
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def sinusoids(length, channels, max_timescale=10000):
    inc = np.log(max_timescale) / (channels // 2 - 1)
    inv = torch.exp(-inc * torch.arange(channels // 2))
    t = torch.arange(length)[:, None] * inv[None, :]
    return torch.cat([t.sin(), t.cos()], dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state, n_head, dropout):
        super().__init__()
        self.n_head = n_head
        self.dropout = dropout
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.n_head, -1).permute(0, 2, 1, 3)
                   for f in (self.query, self.key, self.value))
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.out(a.permute(0, 2, 1, 3).flatten(start_dim=2))


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state, n_head, dropout=0.1):
        super().__init__()
        self.attn = MultiHeadAttention(n_state, n_head, dropout)
        self.attn_ln = nn.LayerNorm(n_state)
        self.mlp = nn.Sequential(
            nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attn(self.attn_ln(x)))
        return x + self.drop(self.mlp(self.mlp_ln(x)))


class AudioEncoder(nn.Module):
    def __init__(self, n_mels=16, n_ctx=50, n_state=32, n_head=4, n_layer=2, dropout=0.1):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, n_state, 3, padding=1)
        self.conv2 = nn.Conv1d(n_state, n_state, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", sinusoids(n_ctx, n_state))
        self.blocks = nn.ModuleList(
            ResidualAttentionBlock(n_state, n_head, dropout) for _ in range(n_layer))
        self.ln_post = nn.LayerNorm(n_state)

    def forward(self, mel):
        x = F.gelu(self.conv1(mel))
        x = F.gelu(self.conv2(x)).permute(0, 2, 1)
        # si accettano anche clip piu' corte di 30 s
        x = x + self.positional_embedding[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)


if __name__ == "__main__":
    enc = AudioEncoder().eval()
    with torch.no_grad():
        print(enc(torch.randn(1, 16, 80)).shape)
