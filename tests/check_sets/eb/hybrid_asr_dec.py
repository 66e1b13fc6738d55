"""Decoder layer for a small speech recogniser, ported from nn.TransformerDecoderLayer to raw SDPA.

tgt_mask keeps the convention of nn.Transformer.generate_square_subsequent_mask: a FLOAT matrix,
0.0 where looking is allowed and -inf where it is not.  Audio padding comes as frame counts.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AsrDecLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.self_in = nn.Linear(d, 3 * d)
        self.self_out = nn.Linear(d, d)
        self.x_q = nn.Linear(d, d)
        self.x_kv = nn.Linear(d, 2 * d)
        self.x_out = nn.Linear(d, d)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def _h(self, t):
        return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

    @staticmethod
    def _m(t):
        return t.transpose(1, 2).flatten(2)

    def forward(self, y, audio, frames, tgt_mask):
        """
        y        (B, T, d)   text so far
        audio    (B, S, d)   encoder output
        frames   (B,) int    valid frames per utterance, >= 1
        tgt_mask (T, T)      additive float, 0 = look, -inf = do not look
        returns  (B, T, d)
        """
        q, k, v = map(self._h, self.self_in(self.n1(y)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=tgt_mask.to(torch.bool))
        y = y + self.self_out(self._m(a))
        q = self._h(self.x_q(self.n2(y)))
        k, v = map(self._h, self.x_kv(audio).chunk(2, -1))
        ok = torch.arange(audio.size(1), device=y.device) < frames[:, None]
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=ok[:, None, None, :])
        y = y + self.x_out(self._m(a))
        return y + self.ff(self.n3(y))
