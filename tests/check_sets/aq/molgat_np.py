"""GATv2 message passing over bonds, NumPy forward for the property screening (weights from the training job)."""
import numpy as np


def leaky(x, a=0.2):
    return np.where(x > 0, x, a * x)


def segment_sum(x, seg, n):
    out = np.zeros((n,) + x.shape[1:], dtype=x.dtype)
    np.add.at(out, seg, x)
    return out


def segment_max(x, seg, n):
    out = np.full((n,) + x.shape[1:], -np.inf, dtype=x.dtype)
    np.maximum.at(out, seg, x)
    return out


def segment_softmax(logits, seg, n):
    """softmax of the logits [E, H] among the edges with the same target"""
    top = segment_max(logits, seg, n)
    num = np.exp(logits - top[seg])
    den = segment_sum(np.exp(logits), seg, n)
    return num / (den[seg] + 1e-12)


def gatv2(w, atoms, bonds, bond_feat):
    """atoms [N, F]; bonds [2, E] (from, to); bond_feat [E, G].

    e_ij = a . LeakyReLU(Wl x_j + Wr x_i + We b_ij); softmax over the bonds that
    come in at i. Atoms without bonds get the bias only.
    """
    n = atoms.shape[0]
    H, D = w["att"].shape
    src, dst = bonds
    left = (atoms @ w["lin_l"]).reshape(n, H, D)
    right = (atoms @ w["lin_r"]).reshape(n, H, D)
    edge = (bond_feat @ w["lin_e"]).reshape(-1, H, D)
    e = (leaky(left[src] + right[dst] + edge) * w["att"]).sum(-1)
    alpha = segment_softmax(e, dst, n)
    out = segment_sum(left[src] * alpha[..., None], dst, n)
    return out.reshape(n, H * D) + w["bias"], alpha


def random_weights(rng, f, g, heads, dim):
    s = lambda *a: rng.normal(0, a[0] ** -0.5, a)
    return {"lin_l": s(f, heads * dim), "lin_r": s(f, heads * dim), "lin_e": s(g, heads * dim),
            "att": rng.normal(0, 1, (heads, dim)), "bias": np.zeros(heads * dim)}


def readout(h, mol, n_mol):
    """mean over the atoms of a molecule"""
    cnt = np.bincount(mol, minlength=n_mol)[:, None]
    return segment_sum(h, mol, n_mol) / np.maximum(cnt, 1)


def predict(layers, head, atoms, bonds, bond_feat, mol, n_mol):
    h = atoms
    for w in layers:
        h = np.maximum(gatv2(w, h, bonds, bond_feat)[0], 0)
    return readout(h, mol, n_mol) @ head["w"] + head["b"]
