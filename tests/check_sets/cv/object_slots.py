"""Object discovery on CLEVR-like frames (course project, group 7)."""
import torch
import torch.nn as nn


class Slots(nn.Module):
    """Slot attention (Locatello et al. 2020).

    feats: (B, N, dim).   slots0: optional (B, K, dim) initial slots; when not given the
    learned initial slots are used (no sampling, so the module is deterministic).
    The slots compete for each input: the weights are normalised across *slots*, and then the
    update of a slot is the weighted mean over the inputs.
    Returns (slots (B, K, dim), attn (B, K, N)) with attn.sum(1) == 1.
    """

    def __init__(self, K=4, dim=16, iters=3, eps=1e-8):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, dim ** -0.5
        self.init = nn.Parameter(torch.randn(1, K, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.norm_in, self.norm_s, self.norm_m = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, feats, slots0=None):
        B, N, D = feats.shape
        feats = self.norm_in(feats)
        k, v = self.to_k(feats), self.to_v(feats)
        slots = self.init.expand(B, -1, -1) if slots0 is None else slots0
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_s(slots))
            logits = self.scale * torch.einsum("bkd,bnd->bkn", q, k)
            attn = logits.softmax(dim=1)
            w = attn + self.eps
            w = w / w.sum(dim=-1, keepdim=True)
            upd = torch.einsum("bkn,bnd->bkd", w, v)
            slots = self.gru(upd.reshape(-1, D), prev.reshape(-1, D)).view(B, -1, D)
            slots = slots + self.mlp(self.norm_m(slots))
        return slots, attn
