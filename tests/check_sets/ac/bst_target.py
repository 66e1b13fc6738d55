"""CTR model with a behaviour transformer followed by target attention."""
import torch
import torch.nn as nn


def masked_softmax(x, mask, dim=-1, eps=1e-12):
    """mask is 1/0. Softmax over everything, zero what is masked, renormalise: the same as a softmax
    over the unmasked entries, and an empty history gives zeros instead of nan."""
    p = torch.softmax(x, dim=dim)
    p = p * mask
    return p / (p.sum(dim=dim, keepdim=True) + eps)


class TargetAttention(nn.Module):
    def __init__(self, dim, att_dim=16):
        super().__init__()
        self.q = nn.Linear(dim, att_dim)
        self.k = nn.Linear(dim, att_dim)
        self.temp = att_dim ** 0.5

    def forward(self, target, seq, mask):
        # target [B, D]   seq [B, L, D]   mask [B, L]
        logit = (self.k(seq) @ self.q(target).unsqueeze(-1)).squeeze(-1) / self.temp
        w = masked_softmax(logit, mask)
        return (w.unsqueeze(1) @ seq).squeeze(1)


class BehaviourLayer(nn.Module):
    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head, self.hd = n_head, dim // n_head
        self.W = nn.Linear(dim, 3 * dim, bias=False)
        self.O = nn.Linear(dim, dim)
        self.ln_a, self.ln_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.LeakyReLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        B, L, D = x.shape
        # [B, L, 3D] -> 3 x [B*n_head, L, hd]; batch is the outer factor
        q, k, v = (
            t.reshape(B, L, self.n_head, self.hd).permute(0, 2, 1, 3).reshape(B * self.n_head, L, self.hd)
            for t in self.W(x).chunk(3, dim=-1)
        )
        m = mask.repeat_interleave(self.n_head, dim=0).unsqueeze(1)
        a = masked_softmax(q @ k.transpose(1, 2) / self.hd ** 0.5, m)
        y = (a @ v).reshape(B, self.n_head, L, self.hd).permute(0, 2, 1, 3).reshape(B, L, D)
        x = self.ln_a(x + self.O(y))
        return self.ln_f(x + self.ffn(x))


class BST(nn.Module):
    def __init__(self, n_items, dim=32, n_head=4, max_len=20, layers=1):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(BehaviourLayer(dim, n_head) for _ in range(layers))
        self.target = TargetAttention(dim)
        self.mlp = nn.Sequential(nn.Linear(3 * dim, 32), nn.LeakyReLU(), nn.Linear(32, 1))

    def forward(self, target_id, hist):
        mask = (hist > 0).float()
        x = self.item(hist) + self.pos.weight[: hist.size(1)]
        for layer in self.layers:
            x = layer(x, mask)
        t = self.item(target_id)
        u = self.target(t, x, mask)
        return self.mlp(torch.cat([t, u, t * u], -1)).squeeze(-1)
