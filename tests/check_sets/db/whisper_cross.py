import torch
from torch import nn


class AudioAttend(nn.Module):
    """Cross-attention of a Whisper-like text decoder to encoded audio.

    x     (B, T, n_state)   text states
    xa    (B, S, n_state)   encoded audio
    gone  (B, S) bool or None, True = frame is padding; no clip is all padding
    memo  dict or None; the projected audio is kept in it. Use a fresh dict per batch of audio.
    """

    def __init__(self, n_state: int = 24, n_head: int = 3):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x, xa, gone=None, memo=None):
        if memo is not None and "k" in memo:
            k, v = memo["k"], memo["v"]
        else:
            k, v = self.key(xa), self.value(xa)
            if memo is not None:
                memo.update(k=k, v=v)
        q = self.query(x)
        scale = (q.shape[-1] // self.n_head) ** -0.25
        q = q.unflatten(-1, (self.n_head, -1)).permute(0, 2, 1, 3) * scale
        k = k.unflatten(-1, (self.n_head, -1)).permute(0, 2, 3, 1) * scale
        v = v.unflatten(-1, (self.n_head, -1)).permute(0, 2, 1, 3)
        qk = (q @ k).float()
        if gone is not None:
            qk = qk.masked_fill(gone[:, None, None], -torch.inf)
        w = qk.softmax(dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))
