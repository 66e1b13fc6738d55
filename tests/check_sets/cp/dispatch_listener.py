"""Attend-and-spell style decoder for emergency dispatch calls.

Bahdanau (additive) attention of the character decoder over the acoustic frames.
"""
import torch
import torch.nn as nn


class FrameAttention(nn.Module):
    """Bahdanau attention, score(s, h_j) = v . tanh(W s + U h_j).

    Args of forward:
        state:  (B, dec_dim) current decoder state
        frames: (B, F, enc_dim)
        frame_lens: (B,) valid frames of each call (>= 1); the others get no weight
    Returns (context (B, enc_dim), weights (B, F))
    """

    def __init__(self, dec_dim: int = 32, enc_dim: int = 24, att_dim: int = 16):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim)
        self.U = nn.Linear(enc_dim, att_dim, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, state, frames, frame_lens):
        hidden = self.W(state).unsqueeze(1) + self.U(frames)
        energy = self.v(hidden).squeeze(-1)
        valid = torch.arange(frames.size(1), device=frames.device)[None] < frame_lens[:, None]
        energy = energy * valid.to(energy.dtype)
        weights = torch.softmax(energy, dim=-1)
        context = (weights.unsqueeze(-1) * frames).sum(dim=1)
        return context, weights


class DispatchSpeller(nn.Module):
    def __init__(self, chars: int = 40, emb: int = 16, dec_dim: int = 32, enc_dim: int = 24):
        super().__init__()
        self.emb = nn.Embedding(chars, emb)
        self.cell = nn.LSTMCell(emb + enc_dim, dec_dim)
        self.attention = FrameAttention(dec_dim, enc_dim)
        self.out = nn.Linear(dec_dim + enc_dim, chars)
        self.dec_dim, self.enc_dim = dec_dim, enc_dim

    def forward(self, frames, frame_lens, text):
        """frames (B, F, enc_dim), frame_lens (B,), text (B, T) gold characters.
        Returns logits (B, T, chars) and attention (B, T, F)."""
        B, T = text.shape
        h = frames.new_zeros(B, self.dec_dim)
        c = torch.zeros_like(h)
        ctx = frames.new_zeros(B, self.enc_dim)
        logits, maps = [], []
        for t in range(T):
            h, c = self.cell(torch.cat([self.emb(text[:, t]), ctx], dim=-1), (h, c))
            ctx, w = self.attention(h, frames, frame_lens)
            logits.append(self.out(torch.cat([h, ctx], dim=-1)))
            maps.append(w)
        return torch.stack(logits, dim=1), torch.stack(maps, dim=1)
