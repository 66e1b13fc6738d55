"""Treatment planning over odontograms: NumPy collation, torch model.

``collate`` pads the patients of a batch to the largest number of findings and makes an *additive*
mask in NumPy (0.0 for a finding, -inf for padding), because the old TensorFlow service wanted it
like that.  The model takes the same mask.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# FDI numbering, 11..18, 21..28, 31..38, 41..48
TEETH = [10 * quadrant + tooth for quadrant in (1, 2, 3, 4) for tooth in range(1, 9)]
TOOTH_INDEX = {t: i for i, t in enumerate(TEETH)}
SURFACES = "MODBL"
FINDINGS = ["caries", "filling", "crown", "root canal", "missing", "fracture", "mobility"]


def encode(finding):
    """(tooth, surfaces, name, severity) -> float32 vector"""
    tooth, surfaces, name, severity = finding
    v = np.zeros(len(TEETH) + len(SURFACES) + len(FINDINGS) + 1, dtype=np.float32)
    v[TOOTH_INDEX[tooth]] = 1
    for s in surfaces:
        v[len(TEETH) + SURFACES.index(s)] = 1
    v[len(TEETH) + len(SURFACES) + FINDINGS.index(name)] = 1
    v[-1] = severity
    return v


def collate(patients):
    longest = max(len(p) for p in patients)
    width = len(TEETH) + len(SURFACES) + len(FINDINGS) + 1
    x = np.zeros((len(patients), longest, width), dtype=np.float32)
    mask = np.full((len(patients), 1, 1, longest), -np.inf, dtype=np.float32)
    for i, p in enumerate(patients):
        for j, f in enumerate(p):
            x[i, j] = encode(f)
        mask[i, :, :, : len(p)] = 0.0
    return x, mask


class FindingsAttention(nn.Module):
    """x (B, N, dim); mask (B, 1, 1, N) additive as made by ``collate`` (array or tensor)."""

    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, N, dim = x.shape
        q, k, v = (p(x).view(B, N, self.n_head, dim // self.n_head).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        if mask is not None:
            mask = torch.as_tensor(mask, device=x.device).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, N, dim))


class Planner(nn.Module):
    def __init__(self, dim=32, n_head=4, depth=2, actions=9):
        super().__init__()
        self.inp = nn.Linear(len(TEETH) + len(SURFACES) + len(FINDINGS) + 1, dim)
        self.attn = nn.ModuleList([FindingsAttention(dim, n_head) for _ in range(depth)])
        self.mlp = nn.ModuleList([nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
                                  for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2 * depth)])
        self.act = nn.Linear(dim, actions)

    def forward(self, x, mask):
        h = self.inp(torch.as_tensor(x))
        for i, (a, m) in enumerate(zip(self.attn, self.mlp)):
            h = h + a(self.norms[2 * i](h), mask)
            h = h + m(self.norms[2 * i + 1](h))
        return self.act(h)


def plan(model, patients):
    """Most urgent action per finding, as lists of NumPy ints."""
    model.eval()
    x, mask = collate(patients)
    with torch.no_grad():
        a = model(x, mask).argmax(-1).numpy()
    return [a[i, : len(p)] for i, p in enumerate(patients)]


if __name__ == "__main__":
    torch.manual_seed(0)
    anna = [(16, "MO", "caries", 0.6), (26, "O", "filling", 0.1), (38, "", "missing", 0.0)]
    bela = [(11, "B", "fracture", 0.9)]
    print(plan(Planner(), [anna, bela]))
