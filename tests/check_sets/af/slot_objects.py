import torch
from torch import nn
from torch.nn import functional as F


class SlotModule(nn.Module):
    """Iterative object slots from a set of features.

    The slots compete for the pixels (every pixel distributes a total weight of 1 among the
    slots), afterwards each slot takes the weighted MEAN of what it won.
    """

    def __init__(self, n_slots, dim, iters=3, hidden=None, eps=1e-8):
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        nn.init.xavier_uniform_(self.log_sigma)

        self.project_q = nn.Linear(dim, dim, bias=False)
        self.project_k = nn.Linear(dim, dim, bias=False)
        self.project_v = nn.Linear(dim, dim, bias=False)

        self.gru = nn.GRUCell(dim, dim)
        hidden = max(dim, hidden or 2 * dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))
        self.norm_inputs = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def init_slots(self, b, n, like):
        noise = torch.randn(b, n, self.mu.size(-1), device=like.device, dtype=like.dtype)
        return self.mu + self.log_sigma.exp() * noise

    def step(self, slots, k, v):
        """One round: returns (new slots, attn [B, pixels, slots])."""
        b, n, d = slots.shape
        q = self.project_q(self.norm_slots(slots)) * self.scale
        logits = torch.einsum("bpd,bsd->bps", k, q)
        attn = F.softmax(logits, dim=-1)                    # competition
        w = attn + self.eps
        w = w / w.sum(dim=1, keepdim=True)                  # mean
        updates = torch.einsum("bps,bpd->bsd", w, v)
        new = self.gru(updates.reshape(b * n, d), slots.reshape(b * n, d)).view(b, n, d)
        return new + self.mlp(self.norm_mlp(new)), attn

    def forward(self, feats, slots=None, n_slots=None):
        b = feats.size(0)
        if slots is None:
            slots = self.init_slots(b, n_slots or self.n_slots, feats)
        feats = self.norm_inputs(feats)
        k, v = self.project_k(feats), self.project_v(feats)
        attn = None
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn.transpose(1, 2)
