"""Dense molecular transformer with distance-biased attention (QM9 dipole moments).

Molecules are padded to the largest of the batch. Attention logits are the usual scaled
dot products plus a learned radial-basis bias of the interatomic distances, plus an
additive mask: 0 for atoms that may be attended to, -inf for padding
(see `padding_to_additive`).
"""
import torch
from torch import nn


def padding_to_additive(n_atoms: torch.Tensor, length: int, dtype=torch.float32) -> torch.Tensor:
    """n_atoms [B] -> [B, 1, 1, L] with 0 / -inf"""
    pad = torch.arange(length, device=n_atoms.device)[None, :] >= n_atoms[:, None]
    mask = torch.zeros(pad.shape, dtype=dtype, device=n_atoms.device)
    return mask.masked_fill(pad, float("-inf"))[:, None, None, :]


class RBF(nn.Module):
    def __init__(self, n: int, cutoff: float):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, cutoff, n))
        self.width = cutoff / n

    def forward(self, dist):
        return torch.exp(-((dist[..., None] - self.centres) / self.width) ** 2)


class DistanceAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, n_rbf: int = 16, cutoff: float = 8.0):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.scale = self.head_dim ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.rbf = RBF(n_rbf, cutoff)
        self.to_bias = nn.Linear(n_rbf, n_heads, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, pos, attn_mask=None):
        """x [B, L, C], pos [B, L, 3], attn_mask additive, broadcastable to [B, H, L, L]"""
        B, L, C = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.n_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / self.scale
        logits = logits + self.to_bias(self.rbf(torch.cdist(pos, pos))).permute(0, 3, 1, 2)
        if attn_mask is not None:
            keep = attn_mask.to(torch.bool)
            logits = logits.masked_fill(~keep, torch.finfo(logits.dtype).min)
        w = logits.softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bihd", w, v)
        return self.out(y.reshape(B, L, C))


class DipoleNet(nn.Module):
    def __init__(self, n_elements: int = 10, dim: int = 32, n_heads: int = 4, depth: int = 2):
        super().__init__()
        self.element = nn.Embedding(n_elements, dim)
        self.attn = nn.ModuleList(DistanceAttention(dim, n_heads) for _ in range(depth))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.charge = nn.Linear(dim, 1)

    def forward(self, z, pos, n_atoms):
        mask = padding_to_additive(n_atoms, z.shape[1], pos.dtype)
        x = self.element(z)
        for norm, attn, ffn in zip(self.norm, self.attn, self.ffn):
            x = x + attn(norm(x), pos, mask)
            x = x + ffn(x)
        real = torch.arange(z.shape[1], device=z.device)[None, :] < n_atoms[:, None]
        q = self.charge(x).squeeze(-1) * real
        q = q - real * (q.sum(1, keepdim=True) / n_atoms[:, None])     # neutral molecule
        return (q[..., None] * pos).sum(1).norm(dim=-1)
