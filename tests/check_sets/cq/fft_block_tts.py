"""Feed-forward transformer block of a FastSpeech-style acoustic model."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def mask_from_lengths(lengths, max_len=None):
    """True at padded frames, (B, T)"""
    max_len = max_len or int(lengths.max())
    ids = torch.arange(max_len, device=lengths.device)
    return ids[None, :] >= lengths[:, None]


class MultiHeadAttention(nn.Module):
    """
    x: (B, T, d_model)
    mask: (B, T, T) bool, True = not allowed. Each row has an allowed position.
    """

    def __init__(self, n_head=2, d_model=32, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.layer_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def _fold(self, t):
        B, T, _ = t.shape
        t = t.view(B, T, self.n_head, self.d_k)
        return t.permute(2, 0, 1, 3).contiguous().view(-1, T, self.d_k)

    def forward(self, x, mask=None):
        B, T, _ = x.shape
        q, k, v = self._fold(self.w_qs(x)), self._fold(self.w_ks(x)), self._fold(self.w_vs(x))

        attn = torch.bmm(q, k.transpose(1, 2)) / self.d_k ** 0.5
        if mask is not None:
            mask = mask.repeat_interleave(self.n_head, dim=0)
            attn = attn.masked_fill(mask, torch.finfo(attn.dtype).min)
        attn = torch.softmax(attn, dim=2)
        out = torch.bmm(attn, v)

        out = out.view(self.n_head, B, T, self.d_k)
        out = out.permute(1, 2, 0, 3).contiguous().view(B, T, -1)
        return self.layer_norm(self.dropout(self.fc(out)) + x)


class FFTBlock(nn.Module):
    """Padding is not attended to and is zero in the output.

    x: (B, T, d_model), lengths: (B,) number of frames
    """

    def __init__(self, d_model=32, n_head=2, d_inner=48, kernel=3, dropout=0.1):
        super().__init__()
        self.slf_attn = MultiHeadAttention(n_head, d_model, dropout)
        self.conv1 = nn.Conv1d(d_model, d_inner, kernel, padding=kernel // 2)
        self.conv2 = nn.Conv1d(d_inner, d_model, 1)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, lengths):
        pad = mask_from_lengths(lengths, x.size(1))
        x = self.slf_attn(x, pad[:, None, :].expand(-1, x.size(1), -1))
        x = x.masked_fill(pad[..., None], 0.0)
        y = self.conv2(F.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)
        x = self.norm(self.dropout(y) + x)
        return x.masked_fill(pad[..., None], 0.0)
