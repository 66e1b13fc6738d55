"""Small speech-to-text encoder-decoder (log-mel frames in, characters out)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def attend(q, k, v, heads, mask=None):
    """q (B, Lq, D), k and v (B, Lk, D), mask broadcastable to (B, heads, Lq, Lk), True = may attend."""
    split = lambda t: t.unflatten(-1, (heads, -1)).transpose(1, 2)
    o = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=mask)
    return o.transpose(1, 2).flatten(2)


class S2T(nn.Module):
    """mel (B, T, n_mel), frames (B,) valid frame counts, chars (B, L) decoder input -> (B, L, vocab).

    The encoder halves the frame rate. Chars are right-padded; losses on padding are
    ignored by the trainer, so the decoder needs only the causal mask.
    """

    def __init__(self, n_mel=8, dim=24, heads=3, vocab=20):
        super().__init__()
        self.heads = heads
        self.sub = nn.Conv1d(n_mel, dim, 3, stride=2, padding=1)
        self.char = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(64, dim) * 0.1)
        self.enc_qkv, self.enc_o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.dec_qkv, self.dec_o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.x_q, self.x_kv, self.x_o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(4))
        self.head = nn.Linear(dim, vocab)

    def encode(self, mel, frames):
        T = mel.shape[1]
        valid = torch.arange(T, device=mel.device)[None] < frames[:, None]
        h = self.sub((mel * valid[..., None]).transpose(1, 2)).relu().transpose(1, 2)
        h = h + self.pos[: h.shape[1]]
        ok = valid[:, ::2][:, None, None, :]  # frame 2j is the centre of output j
        h = h + self.enc_o(attend(*self.enc_qkv(self.n[0](h)).chunk(3, -1), self.heads, ok))
        return h, ok

    def forward(self, mel, frames, chars):
        mem, ok = self.encode(mel, frames)
        L = chars.shape[1]
        y = self.char(chars) + self.pos[:L]
        causal = torch.ones(L, L, dtype=torch.bool, device=y.device).tril()
        y = y + self.dec_o(attend(*self.dec_qkv(self.n[1](y)).chunk(3, -1), self.heads, causal))
        k, v = self.x_kv(mem).chunk(2, -1)
        y = y + self.x_o(attend(self.x_q(self.n[2](y)), k, v, self.heads, ok))
        return self.head(self.n[3](y))
