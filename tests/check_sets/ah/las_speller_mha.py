"""Listen, Attend and Spell: multi-head attention speller for Korean character recognition."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.sqrt_dim = np.sqrt(dim)

    def forward(self, query, key, value, mask=None):
        """mask: bool, same leading size as query, True = padded encoder frame"""
        score = torch.bmm(query, key.transpose(1, 2)) / self.sqrt_dim
        if mask is not None:
            score = score.masked_fill(mask, torch.finfo(score.dtype).min)
        attn = F.softmax(score, -1)
        return torch.bmm(attn, value), attn


class MultiHeadAttention(nn.Module):
    """
    query, key, value: (batch, len, d_model)
    mask: (batch, q_len, k_len), True for frames beyond the utterance's own length
    """

    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        assert d_model % num_heads == 0, "d_model % num_heads should be zero."
        self.d_head = d_model // num_heads
        self.num_heads = num_heads
        self.scaled_dot_attn = ScaledDotProductAttention(self.d_head)
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        batch_size = value.size(0)
        query = self.query_proj(query).view(batch_size, -1, self.num_heads, self.d_head)
        key = self.key_proj(key).view(batch_size, -1, self.num_heads, self.d_head)
        value = self.value_proj(value).view(batch_size, -1, self.num_heads, self.d_head)

        query = query.permute(2, 0, 1, 3).contiguous().view(batch_size * self.num_heads, -1, self.d_head)
        key = key.permute(2, 0, 1, 3).contiguous().view(batch_size * self.num_heads, -1, self.d_head)
        value = value.permute(2, 0, 1, 3).contiguous().view(batch_size * self.num_heads, -1, self.d_head)

        if mask is not None:
            mask = mask.repeat_interleave(self.num_heads, dim=0)

        context, attn = self.scaled_dot_attn(query, key, value, mask)
        context = context.view(self.num_heads, batch_size, -1, self.d_head)
        context = context.permute(1, 2, 0, 3).contiguous().view(batch_size, -1, self.num_heads * self.d_head)
        return context, attn


class Listener(nn.Module):
    def __init__(self, n_mel, hidden):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(n_mel, hidden, 3, 2, 1), nn.ReLU(), nn.Conv1d(hidden, hidden, 3, 2, 1))
        self.rnn = nn.GRU(hidden, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        y = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.rnn(y)[0], torch.div(lengths + 3, 4, rounding_mode="floor")


class Speller(nn.Module):
    def __init__(self, n_vocab, hidden=64, heads=4):
        super().__init__()
        self.emb = nn.Embedding(n_vocab, hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.attention = MultiHeadAttention(hidden, heads)
        self.fc = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, n_vocab))

    def forward(self, tokens, enc, enc_len):
        y, _ = self.rnn(self.emb(tokens))
        pad = torch.arange(enc.size(1), device=enc.device)[None, :] >= enc_len[:, None]
        ctx, _ = self.attention(y, enc, enc, pad[:, None, :].expand(-1, y.size(1), -1))
        return self.fc(torch.cat([y, ctx], -1)).log_softmax(-1)


class LAS(nn.Module):
    def __init__(self, n_mel=80, n_vocab=60, hidden=64, heads=4):
        super().__init__()
        self.listener = Listener(n_mel, hidden)
        self.speller = Speller(n_vocab, hidden, heads)

    def forward(self, feats, lengths, tokens):
        enc, n = self.listener(feats, lengths)
        return self.speller(tokens, enc, n)
