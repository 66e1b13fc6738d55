"""Bahdanau attention, forward pass only, for the "NMT without a framework" exercise."""
import numpy as np


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


class BahdanauAttention:
    """e_ij = v . tanh(W s_i + U h_j), alpha = softmax over j, c_i = sum_j alpha_ij h_j.

    W: (units, dec), U: (units, enc), v: (units,)
    """

    def __init__(self, dec_dim, enc_dim, units, seed=0):
        rng = np.random.default_rng(seed)
        self.W = rng.normal(0, 0.3, (units, dec_dim))
        self.U = rng.normal(0, 0.3, (units, enc_dim))
        self.v = rng.normal(0, 0.3, units)

    def __call__(self, states, annotations, lengths=None):
        """
        states: (batch, T_dec, dec) decoder states, annotations: (batch, T_enc, enc).
        lengths: (batch,) ints >= 1, true source lengths; annotations after that are padding.
        Returns contexts (batch, T_dec, enc) and alignments (batch, T_dec, T_enc).
        """
        proj_s = states @ self.W.T
        proj_h = annotations @ self.U.T
        hidden = np.tanh(proj_s[:, :, None, :] + proj_h[:, None, :, :])
        energy = hidden @ self.v
        if lengths is not None:
            valid = np.arange(annotations.shape[1])[None, :] < np.asarray(lengths)[:, None]
            energy = np.where(valid[:, None, :], energy, -np.inf)
        align = softmax(energy)
        return np.einsum("bij,bjd->bid", align, annotations), align
