"""Nederlandse Gebarentaal: van pose-reeks naar glossen.

NumPy maakt de batch (opvullen, masker), torch rekent.  Het masker is additief,
zoals de datalader het aflevert: 0.0 = frame telt mee, -inf = opvulling.
"""
import numpy as np
import torch
import torch.nn.functional as F

GLOSSEN = ["IK", "JIJ", "HUIS", "FIETS", "MORGEN", "NIET", "WAAR"]
GEWRICHTEN = 27


def maak_batch(reeksen):
    """lijst van [T_i, d] -> (x [B, T, d], masker [B, T] met 0 / -inf)"""
    T = max(len(r) for r in reeksen)
    d = reeksen[0].shape[1]
    x = np.zeros((len(reeksen), T, d), np.float32)
    masker = np.full((len(reeksen), T), -np.inf, np.float32)
    for i, r in enumerate(reeksen):
        x[i, : len(r)] = r
        masker[i, : len(r)] = 0.0
    return x, masker


def heup_als_oorsprong(pose):
    """pose [T, G, 2]; verschuif en schaal naar schouderbreedte."""
    mid = (pose[:, 11] + pose[:, 12]) / 2
    breed = np.linalg.norm(pose[:, 5] - pose[:, 6], axis=-1).mean() + 1e-6
    return (pose - mid[:, None]) / breed


class PoseAandacht(torch.nn.Module):
    """x [B, T, D] (array of tensor), masker [B, T] additief (0 / -inf) of None."""

    def __init__(self, D=32, koppen=4):
        super().__init__()
        self.koppen = koppen
        self.in_proj = torch.nn.Linear(D, 3 * D)
        self.uit = torch.nn.Linear(D, D)

    def forward(self, x, masker=None):
        x = torch.as_tensor(x)
        B, T, D = x.shape
        q, k, v = (
            t.reshape(B, T, self.koppen, D // self.koppen).transpose(1, 2)
            for t in self.in_proj(x).chunk(3, -1)
        )
        if masker is not None:
            m = torch.as_tensor(masker)
            m = m[:, None, None, :].bool()
            masker = m.expand(B, 1, T, T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=masker)
        return self.uit(y.transpose(1, 2).reshape(B, T, D))


class Glosser(torch.nn.Module):
    def __init__(self, D=32, lagen=2):
        super().__init__()
        self.pose = torch.nn.Linear(2 * GEWRICHTEN, D)
        self.blokken = torch.nn.ModuleList(PoseAandacht(D) for _ in range(lagen))
        self.ctc = torch.nn.Linear(D, len(GLOSSEN) + 1)

    def forward(self, x, masker):
        h = self.pose(torch.as_tensor(x))
        for b in self.blokken:
            h = h + b(F.layer_norm(h, h.shape[-1:]), masker)
        return self.ctc(h).log_softmax(-1)


def ctc_lezen(logp, leeg=len(GLOSSEN)):
    uit, vorige = [], leeg
    for i in logp.argmax(-1).tolist():
        if i not in (vorige, leeg):
            uit.append(GLOSSEN[i])
        vorige = i
    return " ".join(uit)
