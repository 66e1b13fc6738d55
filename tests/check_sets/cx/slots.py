import torch
import torch.nn as nn


class Slots(nn.Module):
    """Slot attention (Locatello et al. 2020) on CNN features of Atari frames.

    feats [B, N, d_in] -> slots [B, K, d] and the masks [B, K, N]. The slots compete for each
    location: masks sum to one over K. Start of the slots: `init` [B, K, d] or, when None,
    drawn from the learned normal distribution.
    """

    def __init__(self, d_in, d, k, turns=3, eps=1e-8):
        super().__init__()
        self.k, self.turns, self.eps = k, turns, eps
        self.mean = nn.Parameter(torch.randn(d) * d ** -0.5)
        self.log_std = nn.Parameter(torch.zeros(d))
        self.norm_in, self.norm_slot, self.norm_ff = nn.LayerNorm(d_in), nn.LayerNorm(d), nn.LayerNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.k_ = nn.Linear(d_in, d, bias=False)
        self.v = nn.Linear(d_in, d, bias=False)
        self.gru = nn.GRUCell(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, feats, init=None):
        b, n, _ = feats.shape
        x = self.norm_in(feats)
        keys, vals = self.k_(x), self.v(x)
        if init is None:
            noise = torch.randn(b, self.k, self.mean.numel(), device=feats.device)
            init = self.mean + self.log_std.exp() * noise
        s = init
        masks = None
        for _ in range(self.turns):
            q = self.q(self.norm_slot(s))
            logits = torch.einsum("bkd,bnd->bkn", q, keys) * q.shape[-1] ** -0.5
            masks = logits.softmax(dim=1)
            mean_w = masks + self.eps
            mean_w = mean_w / mean_w.sum(dim=-1, keepdim=True)
            update = mean_w @ vals
            flat = self.gru(update.reshape(-1, update.shape[-1]), s.reshape(-1, s.shape[-1]))
            s = flat.view_as(s)
            s = s + self.ff(self.norm_ff(s))
        return s, masks
