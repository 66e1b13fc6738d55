"""Decoder layer for precipitation nowcasting: radar frames (encoder) -> gauge series (decoder)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GaugeDecoderLayer(nn.Module):
    """Pre-norm transformer decoder layer.

    1. masked self-attention over the gauge steps produced so far (causal)
    2. cross-attention from gauge steps to radar frames
    3. feed-forward

    Args of forward:
        gauge: (B, Tg, D)
        radar: (B, Tr, D), Tr and Tg differ
        radar_missing: (B, Tr) bool, True where the radar frame was lost.
            There is always at least one frame left.
    """

    def __init__(self, d_model: int = 32, n_heads: int = 4, d_ff: int = 64, p_drop: float = 0.1):
        super().__init__()
        self.n_heads = n_heads
        self.p_drop = p_drop
        self.self_in = nn.Linear(d_model, 3 * d_model)
        self.self_out = nn.Linear(d_model, d_model)
        self.cross_q = nn.Linear(d_model, d_model)
        self.cross_kv = nn.Linear(d_model, 2 * d_model)
        self.cross_out = nn.Linear(d_model, d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(p_drop), nn.Linear(d_ff, d_model)
        )
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(3)])
        self.drop = nn.Dropout(p_drop)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    @staticmethod
    def _merge(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).flatten(2)

    def _attend(self, q, k, v, **kw):
        rate = self.p_drop if self.training else 0.0
        return self._merge(F.scaled_dot_product_attention(q, k, v, dropout_p=rate, **kw))

    def forward(self, gauge, radar, radar_missing=None):
        h = self.norms[0](gauge)
        q, k, v = (self._heads(t) for t in self.self_in(h).chunk(3, -1))
        gauge = gauge + self.drop(self.self_out(self._attend(q, k, v, is_causal=True)))

        h = self.norms[1](gauge)
        q = self._heads(self.cross_q(h))
        k, v = (self._heads(t) for t in self.cross_kv(radar).chunk(2, -1))
        # SDPA wants True = take part
        usable = None if radar_missing is None else ~radar_missing[:, None, None, :]
        gauge = gauge + self.drop(self.cross_out(self._attend(q, k, v, attn_mask=usable)))

        return gauge + self.drop(self.ff(self.norms[2](gauge)))
