"""Next-chord model for lead sheets."""
import torch
import torch.nn as nn


class CappedAttention(nn.Module):
    """Masked self-attention with soft-capped logits, cap * tanh(logits / cap), as in Gemma 2.

    A chord only sees the chords up to itself; nothing of the future gets through.
    """

    def __init__(self, d_model=32, n_heads=4, logit_cap=5.0, max_len=64):
        super().__init__()
        self.n_heads = n_heads
        self.logit_cap = logit_cap
        self.scale = (d_model // n_heads) ** -0.5
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("causal", torch.ones(max_len, max_len, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        logits = (q @ k.transpose(-2, -1)) * self.scale
        logits = logits.masked_fill(~self.causal[:t, :t], torch.finfo(logits.dtype).min)
        logits = self.logit_cap * torch.tanh(logits / self.logit_cap)
        y = torch.softmax(logits, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class ChordLM(nn.Module):
    def __init__(self, n_chords=60, d_model=32, n_heads=4, depth=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(n_chords, d_model)
        self.beat = nn.Embedding(max_len, d_model)
        self.pre = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(depth))
        self.att = nn.ModuleList(CappedAttention(d_model, n_heads, max_len=max_len) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, 64), nn.SiLU(), nn.Linear(64, d_model))
            for _ in range(depth)
        )
        self.head = nn.Linear(d_model, n_chords)

    def forward(self, chords):
        """(batch, bars) ids -> (batch, bars, n_chords) logits of the next chord"""
        x = self.tok(chords) + self.beat.weight[: chords.shape[1]]
        for pre, att, mlp in zip(self.pre, self.att, self.mlp):
            x = x + att(pre(x))
            x = x + mlp(x)
        return self.head(x)
