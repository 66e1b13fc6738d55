"""Attention of a speech recogniser's decoder, after OpenAI's Whisper.

Self-attention: the keys and values of earlier tokens are kept in `memo`, a dictionary from
the projection module to its output so far.  Cross-attention: the audio is projected at the
first call only and taken from `memo` afterwards.  A new utterance starts with an empty memo.
"""
import torch
from torch import nn


class SpeechAttention(nn.Module):
    def __init__(self, n_state, n_head, n_ctx=448):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)
        future = torch.full((n_ctx, n_ctx), float("-inf")).triu_(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x, audio=None, memo=None):
        """x (B, T, n_state): the next T tokens.
        audio (B, S, n_state) or None: None means causal self-attention over all tokens so
        far; else attention over all S frames.  memo: dict or None (None = nothing kept,
        x is the whole text).  Returns (B, T, n_state)."""
        q = self.query(x)
        if audio is not None and memo is not None and self.key in memo:
            k, v = memo[self.key], memo[self.value]
        else:
            src = x if audio is None else audio
            k, v = self.key(src), self.value(src)
            if memo is not None:
                if audio is None and self.key in memo:
                    k = torch.cat([memo[self.key], k], dim=1)
                    v = torch.cat([memo[self.value], v], dim=1)
                memo[self.key], memo[self.value] = k, v
        y = self.attend(q, k, v, causal=audio is None)
        return self.out(y)

    def attend(self, q, k, v, causal):
        b, t, n_state = q.shape
        s = k.shape[1]
        root = (n_state // self.n_head) ** -0.25
        q = q.view(b, t, self.n_head, -1).permute(0, 2, 1, 3) * root
        k = k.view(b, s, self.n_head, -1).permute(0, 2, 3, 1) * root
        v = v.view(b, s, self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if causal:
            qk = qk + self.future[s - t:s, :s]
        w = torch.softmax(qk.float(), dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)
