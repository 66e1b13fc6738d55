import math

import torch
from torch import nn
from torch.nn import functional as F


def sequence_mask(length, max_length=None):
    if max_length is None:
        max_length = int(length.max())
    x = torch.arange(max_length, dtype=length.dtype, device=length.device)
    return x.unsqueeze(0) < length.unsqueeze(1)


class RelMultiHeadAttention(nn.Module):
    """Text-encoder attention for the TTS front end.

    Everything is channels first: x is [b, channels, t_t], c is [b, channels, t_s],
    attn_mask is [b, 1, t_t, t_s] with ones where attention is allowed.
    With window_size=w, a key at offset o in [-w, w] from the query gets a learned
    key vector and a learned value vector (shared by the heads when
    heads_share=True); offsets outside the window get none of either.
    """

    def __init__(self, channels, out_channels, n_heads, window_size=None,
                 heads_share=True, p_dropout=0.0):
        super().__init__()
        assert channels % n_heads == 0
        self.n_heads = n_heads
        self.window_size = window_size
        self.k_channels = channels // n_heads
        self.conv_q = nn.Conv1d(channels, channels, 1)
        self.conv_k = nn.Conv1d(channels, channels, 1)
        self.conv_v = nn.Conv1d(channels, channels, 1)
        self.conv_o = nn.Conv1d(channels, out_channels, 1)
        self.drop = nn.Dropout(p_dropout)
        if window_size is not None:
            n_heads_rel = 1 if heads_share else n_heads
            rel_stddev = self.k_channels ** -0.5
            shape = (n_heads_rel, window_size * 2 + 1, self.k_channels)
            self.emb_rel_k = nn.Parameter(torch.randn(*shape) * rel_stddev)
            self.emb_rel_v = nn.Parameter(torch.randn(*shape) * rel_stddev)
        for conv in (self.conv_q, self.conv_k, self.conv_v):
            nn.init.xavier_uniform_(conv.weight)

    def forward(self, x, c, attn_mask=None):
        q = self.conv_q(x)
        k = self.conv_k(c)
        v = self.conv_v(c)
        return self.conv_o(self.attention(q, k, v, mask=attn_mask))

    def attention(self, query, key, value, mask=None):
        b, d, t_s, t_t = (*key.size(), query.size(2))
        query = query.view(b, self.n_heads, self.k_channels, t_t).transpose(2, 3)
        key = key.view(b, self.n_heads, self.k_channels, t_s).transpose(2, 3)
        value = value.view(b, self.n_heads, self.k_channels, t_s).transpose(2, 3)

        query = query / math.sqrt(self.k_channels)
        scores = torch.matmul(query, key.transpose(-2, -1))
        if self.window_size is not None:
            assert t_s == t_t, "Relative attention is only available for self-attention."
            rel_k = self._get_relative_embeddings(self.emb_rel_k, t_s)
            rel_logits = torch.matmul(query, rel_k.unsqueeze(0).transpose(-2, -1))
            scores = scores + self._relative_to_absolute(rel_logits)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        p_attn = self.drop(F.softmax(scores, dim=-1))
        output = torch.matmul(p_attn, value)
        if self.window_size is not None:
            rel_w = self._absolute_to_relative(p_attn)
            rel_v = self._get_relative_embeddings(self.emb_rel_v, t_s)
            output = output + torch.matmul(rel_w, rel_v.unsqueeze(0))
        return output.transpose(2, 3).contiguous().view(b, d, t_t)

    def _get_relative_embeddings(self, emb, length):
        # -> [h or 1, 2*length-1, d]; zero rows where the offset is out of the window
        pad = max(length - (self.window_size + 1), 0)
        start = max((self.window_size + 1) - length, 0)
        if pad > 0:
            emb = F.pad(emb, (0, 0, pad, pad))
        return emb[:, start:start + 2 * length - 1]

    @staticmethod
    def _relative_to_absolute(x):
        """[b, h, l, 2*l-1] -> [b, h, l, l]"""
        b, h, l, _ = x.size()
        x = F.pad(x, (0, 1))
        x = F.pad(x.reshape(b, h, l * 2 * l), (0, l - 1))
        return x.view(b, h, l + 1, 2 * l - 1)[:, :, :l, l - 1:]

    @staticmethod
    def _absolute_to_relative(x):
        """[b, h, l, l] -> [b, h, l, 2*l-1]"""
        b, h, l, _ = x.size()
        x = F.pad(x, (0, l - 1))
        x = F.pad(x.reshape(b, h, l * (2 * l - 1)), (l, 0))
        return x.view(b, h, l, 2 * l)[:, :, :, 1:]


class EncoderLayer(nn.Module):
    def __init__(self, hidden, n_heads, window_size=4, p=0.1):
        super().__init__()
        self.attn = RelMultiHeadAttention(hidden, hidden, n_heads, window_size, p_dropout=p)
        self.drop = nn.Dropout(p)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x, x_mask):
        x = x * x_mask
        attn_mask = x_mask.unsqueeze(2) * x_mask.unsqueeze(-1)
        y = self.drop(self.attn(x, x, attn_mask))
        return self.norm((x + y).transpose(1, 2)).transpose(1, 2) * x_mask
