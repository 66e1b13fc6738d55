"""Usikivu wa mfuatano: sequential recommender over a user's item history."""
import torch
import torch.nn as nn


class Orodha(nn.Module):
    """SASRec-like model. `vitu` holds item ids (B, L), 0 is padding (on the right).

    Returns scores (B, L, n_items + 1) for the next item at every step; a step
    sees only itself and earlier real items.
    """

    def __init__(self, n_items=50, upana=16, vichwa=2, tabaka=2, max_len=20):
        super().__init__()
        self.kitu = nn.Embedding(n_items + 1, upana, padding_idx=0)
        self.mahali = nn.Embedding(max_len, upana)
        self.usikivu = nn.ModuleList(
            nn.MultiheadAttention(upana, vichwa, batch_first=True) for _ in range(tabaka)
        )
        self.norm_a = nn.ModuleList(nn.LayerNorm(upana) for _ in range(tabaka))
        self.norm_b = nn.ModuleList(nn.LayerNorm(upana) for _ in range(tabaka))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(upana, upana), nn.ReLU(), nn.Linear(upana, upana)) for _ in range(tabaka)
        )
        self.mwisho = nn.LayerNorm(upana)

    def forward(self, vitu):
        B, L = vitu.shape
        tupu = vitu == 0
        h = self.kitu(vitu) + self.mahali(torch.arange(L, device=vitu.device))
        h = h.masked_fill(tupu[..., None], 0.0)
        future = torch.ones(L, L, dtype=torch.bool, device=vitu.device).triu(1)
        for att, na, nb, ffn in zip(self.usikivu, self.norm_a, self.norm_b, self.ffn):
            q = na(h)
            a, _ = att(q, q, q, attn_mask=future, key_padding_mask=tupu, need_weights=False)
            h = h + a
            h = h + ffn(nb(h))
            h = h.masked_fill(tupu[..., None], 0.0)
        return self.mwisho(h) @ self.kitu.weight.T
