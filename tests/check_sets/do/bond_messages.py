"""Bond-wise attention on a batch of molecules stored as one big graph (NumPy).

atoms  : (N, F) float      features of all atoms of all molecules
bonds  : (2, E) int        bonds[0] = sender atom, bonds[1] = receiver atom
length : (E,) float        bond length in Angstrom
p      : dict of weights   Wq, Wk, Wv (F, H*D), w_len (H,), Wo (H*D, F)

A receiver weighs its incoming messages with a softmax taken over exactly the
bonds which end in it; the logit is q_receiver.k_sender/sqrt(D) minus a
positive slope times the length.  Atoms without an incoming bond get a zero
update.  Returned: (N, F) update and (E, H) weights.
"""
import numpy as np


def segment_softmax(logit, seg, n):
    """softmax of logit (E, H) inside each of n groups; seg (E,) is the group id."""
    peak = np.full((n, logit.shape[1]), -np.inf)
    np.maximum.at(peak, seg, logit)
    ex = np.exp(logit - peak[seg])
    total = np.zeros((n, logit.shape[1]))
    np.add.at(total, seg, ex)
    return ex / total[seg]


def bond_attention(atoms, bonds, length, p, heads):
    n = atoms.shape[0]
    src, dst = bonds
    q = (atoms @ p["Wq"]).reshape(n, heads, -1)
    k = (atoms @ p["Wk"]).reshape(n, heads, -1)
    v = (atoms @ p["Wv"]).reshape(n, heads, -1)
    d = q.shape[-1]

    logit = np.sum(q[dst] * k[src], axis=-1) / np.sqrt(d)
    logit = logit - np.logaddexp(0.0, p["w_len"]) * length[:, None]
    w = segment_softmax(logit, dst, n)

    msg = w[..., None] * v[src]
    agg = np.zeros_like(v)
    np.add.at(agg, dst, msg)
    return agg.reshape(n, -1) @ p["Wo"], w


def readout(atoms, mol_of_atom, n_mol):
    """Mean of the atoms of each molecule."""
    s = np.zeros((n_mol, atoms.shape[1]))
    np.add.at(s, mol_of_atom, atoms)
    c = np.bincount(mol_of_atom, minlength=n_mol)
    return s / np.maximum(c, 1)[:, None]
