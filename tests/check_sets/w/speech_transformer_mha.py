import numpy as np
import torch
import torch.nn as nn


def get_non_pad_mask(padded_input, input_lengths):
    """padded_input: N x T x D, returns N x T x 1 with 1 for frames"""
    N, T = padded_input.size(0), padded_input.size(1)
    idx = torch.arange(T, device=padded_input.device)
    return (idx[None] < input_lengths[:, None]).unsqueeze(-1).to(padded_input.dtype)


def get_attn_pad_mask(padded_input, input_lengths, expand_length):
    """mask position is set to 1; N x Lq x Lk"""
    non_pad_mask = get_non_pad_mask(padded_input, input_lengths)
    pad_mask = non_pad_mask.squeeze(-1).lt(1)
    return pad_mask.unsqueeze(1).expand(-1, expand_length, -1)


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)
        self.softmax = nn.Softmax(dim=2)

    def forward(self, q, k, v, mask=None):
        attn = torch.bmm(q, k.transpose(1, 2))
        attn = attn / self.temperature
        if mask is not None:
            attn = attn.masked_fill(mask, -np.inf)
        attn = self.softmax(attn)
        attn = self.dropout(attn)
        output = torch.bmm(attn, v)
        return output, attn


class MultiHeadAttention(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.attention = ScaledDotProductAttention(temperature=np.power(d_k, 0.5), attn_dropout=dropout)
        self.layer_norm = nn.LayerNorm(d_model)
        self.fc = nn.Linear(n_head * d_v, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        d_k, d_v, n_head = self.d_k, self.d_v, self.n_head
        sz_b, len_q, _ = q.size()
        len_k, len_v = k.size(1), v.size(1)
        residual = q

        q = self.w_qs(q).view(sz_b, len_q, n_head, d_k).transpose(1, 2).reshape(-1, len_q, d_k)
        k = self.w_ks(k).view(sz_b, len_k, n_head, d_k).transpose(1, 2).reshape(-1, len_k, d_k)
        v = self.w_vs(v).view(sz_b, len_v, n_head, d_v).transpose(1, 2).reshape(-1, len_v, d_v)

        if mask is not None:
            mask = mask.repeat(n_head, 1, 1)  # one mask for every head

        output, attn = self.attention(q, k, v, mask=mask)
        output = output.view(sz_b, n_head, len_q, d_v).transpose(1, 2).reshape(sz_b, len_q, -1)
        output = self.dropout(self.fc(output))
        return self.layer_norm(output + residual), attn


class EncoderLayer(nn.Module):
    def __init__(self, d_model=64, d_inner=128, n_head=4, d_k=16, d_v=16, dropout=0.1):
        super().__init__()
        self.slf_attn = MultiHeadAttention(n_head, d_model, d_k, d_v, dropout=dropout)
        self.pos_ffn = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, padded_input, input_lengths):
        """padded_input: N x T x D, input_lengths: N"""
        T = padded_input.size(1)
        non_pad_mask = get_non_pad_mask(padded_input, input_lengths)
        slf_attn_mask = get_attn_pad_mask(padded_input, input_lengths, T)
        x, slf_attn = self.slf_attn(padded_input, padded_input, padded_input, mask=slf_attn_mask)
        x = x * non_pad_mask
        x = self.norm(x + self.pos_ffn(x)) * non_pad_mask
        return x, slf_attn
