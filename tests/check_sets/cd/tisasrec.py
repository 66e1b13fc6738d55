"""Time-interval aware self-attention (TiSASRec, WSDM 2020), PyTorch re-write.

With p the absolute position embeddings and r those of the clipped time
interval between two interactions,

    e_ij = q_i . (k_j + rK_ij + pK_j) / sqrt(d)
    z_i  = sum_j softmax_j(e_ij) (v_j + rV_ij + pV_j)        j <= i

Histories are padded on the left with item 0.  Padded interactions are seen by
nobody but themselves, which keeps their (unused) rows finite.
"""
import torch
from torch import nn


class TimeAwareAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.d = hidden // heads
        self.Q, self.K, self.V = (nn.Linear(hidden, hidden) for _ in range(3))

    def forward(self, queries, keys, hide, rK, rV, pK, pV):
        # rK, rV: [B, L, L, C]; pK, pV: [L, C]; hide: [B, L, L]
        B, L, C = queries.shape
        q = self.Q(queries).view(B, L, self.heads, self.d)
        k = (self.K(keys) + pK).view(B, L, self.heads, self.d)
        v = (self.V(keys) + pV).view(B, L, self.heads, self.d)
        rK = rK.view(B, L, L, self.heads, self.d)
        rV = rV.view(B, L, L, self.heads, self.d)

        e = torch.einsum("bihd,bjhd->bhij", q, k)
        e = e + torch.einsum("bihd,bijhd->bhij", q, rK)
        e = (e / self.d ** 0.5).masked_fill(hide.unsqueeze(1), float("-inf"))
        w = torch.softmax(e, dim=-1)

        z = torch.einsum("bhij,bjhd->bihd", w, v)
        z = z + torch.einsum("bhij,bijhd->bihd", w, rV)
        return z.reshape(B, L, C)


class TiSASRec(nn.Module):
    def __init__(self, n_items=100, hidden=16, heads=2, max_len=20, time_span=32):
        super().__init__()
        self.time_span = time_span
        self.item = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.pos_k = nn.Embedding(max_len, hidden)
        self.pos_v = nn.Embedding(max_len, hidden)
        self.time_k = nn.Embedding(time_span + 1, hidden)
        self.time_v = nn.Embedding(time_span + 1, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.attn = TimeAwareAttention(hidden, heads)
        self.ffn = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))

    def forward(self, seq, times):
        """seq [B, L] item ids, times [B, L] integer time stamps -> [B, L, hidden]"""
        L = seq.size(1)
        gap = (times[:, :, None] - times[:, None, :]).abs().clamp(max=self.time_span)
        pos = torch.arange(L, device=seq.device)
        pad = seq == 0
        itself = pos[:, None] == pos[None, :]
        hide = (pos[None, :] > pos[:, None]) | (pad[:, None, :] & ~itself)

        x = self.item(seq)
        z = self.attn(self.norm1(x), x, hide, self.time_k(gap), self.time_v(gap),
                      self.pos_k(pos), self.pos_v(pos))
        x = x + z
        x = x + self.ffn(self.norm2(x))
        return x * (~pad).unsqueeze(-1)

    def predict(self, seq, times, candidates):
        user = self.forward(seq, times)[:, -1]
        return (self.item(candidates) * user.unsqueeze(1)).sum(-1)
