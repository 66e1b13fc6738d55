"""Attention-based multiple instance learning on whole slide images (Ilse et al. 2018)."""
import torch
from torch import nn
from torch.utils.data import default_collate


def collate_bags(batch):
    """Bags of tile features with different sizes -> padded tensor, sizes, labels."""
    feats, labels = zip(*batch)
    n = torch.tensor([len(f) for f in feats])
    out = feats[0].new_zeros(len(feats), int(n.max()), feats[0].size(-1))
    for i, f in enumerate(feats):
        out[i, :len(f)] = f
    return out, n, default_collate(labels)


class GatedAttentionPool(nn.Module):
    """a_k = softmax_k( w^T ( tanh(V h_k) * sigm(U h_k) ) ), one map per class (branch).

    h (B, K, F) and the number of true tiles in each bag (at least 1).
    Returns z (B, branches, F) and a (B, branches, K).
    """

    def __init__(self, dim, hidden=128, branches=1):
        super().__init__()
        self.V = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh())
        self.U = nn.Sequential(nn.Linear(dim, hidden), nn.Sigmoid())
        self.w = nn.Linear(hidden, branches)

    def forward(self, h, sizes):
        a = self.w(self.V(h) * self.U(h))                    # B, K, branches
        tile = torch.arange(h.size(1), device=h.device)
        missing = tile[None, :] >= sizes[:, None]            # B, K
        a = a.masked_fill(missing[:, :, None], float("-inf"))
        a = torch.softmax(a, dim=1).permute(0, 2, 1)
        return a @ h, a


class MILNet(nn.Module):
    def __init__(self, in_dim=1024, dim=256, n_classes=2, dropout=0.25):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(in_dim, dim), nn.ReLU(), nn.Dropout(dropout))
        self.pool = GatedAttentionPool(dim, branches=n_classes)
        self.cls = nn.ModuleList(nn.Linear(dim, 1) for _ in range(n_classes))

    def forward(self, x, sizes):
        z, a = self.pool(self.fc(x), sizes)
        logits = torch.cat([c(z[:, i]) for i, c in enumerate(self.cls)], dim=1)
        return logits, a


def heatmap(a, coords, tile, shape):
    """Attention of one slide (K,) on the thumbnail grid."""
    grid = torch.zeros(shape)
    lo, hi = a.min(), a.max()
    for w, (x, y) in zip((a - lo) / (hi - lo + 1e-12), coords.tolist()):
        grid[int(y) // tile, int(x) // tile] = w
    return grid


def train_epoch(model, loader, opt, device="cpu"):
    model.train()
    total = 0.0
    for x, n, y in loader:
        opt.zero_grad()
        logits, _ = model(x.to(device), n.to(device))
        loss = nn.functional.cross_entropy(logits, y.to(device))
        loss.backward()
        opt.step()
        total += loss.item()
    return total / max(len(loader), 1)
