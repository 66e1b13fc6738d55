"""Inference of a bond-aware attention layer on one molecule, NumPy only.

atoms   (N, F)    atom features
bonds   (2, E)    int; every column (i, j) means "atom i receives from atom j"; both directions of
                  a bond and a self-loop for every atom are listed
kind    (E,)      int, bond type
p       dict      "q", "k", "v" (F, H*d), "o" (H*d, F), "bond" (n_types, H), "heads" H

out[i] = atoms[i] + O . concat_h sum_{j in N(i)} a_h[i, j] v_h[j], where for every atom i and head
the weights a_h[i, .] of the atoms it receives from are positive and add up to 1:
a softmax of q_i . k_j / sqrt(d) + bond[kind].
"""
import numpy as np


def bond_logits(q, k, bonds, kind, table):
    i, j = bonds
    z = np.einsum("ehd,ehd->eh", q[i], k[j]) / np.sqrt(q.shape[-1])
    return z + table[kind]


def molecule_layer(atoms, bonds, kind, p):
    N, _ = atoms.shape
    H = p["heads"]
    q = (atoms @ p["q"]).reshape(N, H, -1)
    k = (atoms @ p["k"]).reshape(N, H, -1)
    v = (atoms @ p["v"]).reshape(N, H, -1)

    z = bond_logits(q, k, bonds, kind, p["bond"])           # E, H
    a = np.exp(z - z.max(axis=0))
    a = a / a.sum(axis=0)

    msg = np.zeros_like(v)
    np.add.at(msg, bonds[0], a[:, :, None] * v[bonds[1]])
    return atoms + msg.reshape(N, -1) @ p["o"]
