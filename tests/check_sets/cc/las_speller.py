"""Speller of a Listen-Attend-Spell recogniser (character decoder).

At each step the decoder state is compared with every listener frame,
e_j = v . tanh(W s + U h_j + b), the frames past the end of the utterance are
excluded, and the context is the weighted mean of the frames.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FrameAttention(nn.Module):
    def __init__(self, state_dim, frame_dim, attn_dim, max_frames):
        super().__init__()
        self.max_frames = max_frames
        self.state = nn.Linear(state_dim, attn_dim)
        self.score = nn.Linear(attn_dim, max_frames)

    def forward(self, s, frames, lengths):
        """s [B, S], frames [B, T, D], lengths [B] -> context [B, D], weights [B, T]"""
        T = frames.size(1)
        e = self.score(torch.tanh(self.state(s)))[:, :T]
        beyond = torch.arange(T, device=s.device)[None] >= lengths[:, None]
        e.masked_fill(beyond, float("-inf"))
        w = F.softmax(e, dim=-1)
        return torch.bmm(w.unsqueeze(1), frames).squeeze(1), w


class Speller(nn.Module):
    def __init__(self, n_chars=30, emb=12, frame_dim=20, state_dim=24, attn_dim=16, max_frames=64):
        super().__init__()
        self.state_dim = state_dim
        self.frame_dim = frame_dim
        self.emb = nn.Embedding(n_chars, emb)
        self.rnn1 = nn.LSTMCell(emb + frame_dim, state_dim)
        self.rnn2 = nn.LSTMCell(state_dim, state_dim)
        self.attention = FrameAttention(state_dim, frame_dim, attn_dim, max_frames)
        self.chars = nn.Sequential(
            nn.Linear(state_dim + frame_dim, 32), nn.Tanh(), nn.Linear(32, n_chars)
        )

    def zero_state(self, b, like):
        z = like.new_zeros(b, self.state_dim)
        return (z, z), (z, z), like.new_zeros(b, self.frame_dim)

    def step(self, char, state, frames, lengths):
        s1, s2, ctx = state
        s1 = self.rnn1(torch.cat([self.emb(char), ctx], dim=-1), s1)
        s2 = self.rnn2(s1[0], s2)
        ctx, w = self.attention(s2[0], frames, lengths)
        logits = self.chars(torch.cat([s2[0], ctx], dim=-1))
        return logits, (s1, s2, ctx), w

    def forward(self, chars, frames, lengths):
        state = self.zero_state(frames.size(0), frames)
        logits, maps = [], []
        for t in range(chars.size(1)):
            y, state, w = self.step(chars[:, t], state, frames, lengths)
            logits.append(y)
            maps.append(w)
        return torch.stack(logits, 1), torch.stack(maps, 1)
