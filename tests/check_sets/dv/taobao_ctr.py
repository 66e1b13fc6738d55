"""CTR model: behaviour sequence (with the target item appended) through one transformer layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BehaviourLayer(nn.Module):
    """seq (B, L, D), pad (B, L) bool with True = padding -> (B, L, D).

    Multi-head attention, keys that are padding are ignored (the target item is always there).
    Dropout on the attention weights and on the output is a training regulariser; scoring in eval
    mode is deterministic.
    """

    def __init__(self, dim=32, heads=4, rate=0.2):
        super().__init__()
        self.heads, self.rate = heads, rate
        self.in_proj = nn.Linear(dim, dim * 3)
        self.out_proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(rate)
        self.ln = nn.LayerNorm(dim)

    def forward(self, seq, pad):
        B, L, D = seq.shape
        q, k, v = self.in_proj(seq).split(D, dim=-1)
        q, k, v = [t.reshape(B, L, self.heads, D // self.heads).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=~pad[:, None, None, :],
                                           dropout_p=self.rate)
        y = y.transpose(1, 2).reshape(B, L, D)
        return self.ln(seq + self.drop(self.out_proj(y)))


class CTR(nn.Module):
    """items (B, L) long with 0 = padding, target (B,) long -> click logit (B,)"""

    def __init__(self, n_items=200, dim=32):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.layer = BehaviourLayer(dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 32), nn.LeakyReLU(), nn.Linear(32, 1))

    def forward(self, items, target):
        ids = torch.cat([items, target[:, None]], 1)
        y = self.layer(self.item(ids), ids == 0)
        real = (ids != 0).unsqueeze(-1)
        mean = (y * real).sum(1) / real.sum(1)
        return self.mlp(torch.cat([mean, y[:, -1]], -1)).squeeze(-1)
