"""Decoder step of the date-normalisation model, ported from our Keras code for the Lambda."""
import numpy as np


def _softmax(a):
    a = a - a.max(axis=1, keepdims=True)
    a = np.exp(a)
    return a / a.sum(axis=1, keepdims=True)


class GlobalAttention:
    """Luong et al. 2015, score = h_t^T W_a h_s ("general")."""

    def __init__(self, W_a, W_c):
        self.W_a = W_a   # (H, H)
        self.W_c = W_c   # (2H, H)

    def align(self, h_t, h_s, lengths):
        # h_t (B, H)   h_s (B, S, H)   lengths (B,)
        score = np.einsum("bh,hk,bsk->bs", h_t, self.W_a, h_s)
        valid = np.arange(h_s.shape[1])[None, :] < lengths[:, None]
        return _softmax(score) * valid

    def step(self, h_t, h_s, lengths):
        a = self.align(h_t, h_s, lengths)
        c = np.einsum("bs,bsh->bh", a, h_s)
        h_tilde = np.tanh(np.concatenate([c, h_t], axis=1) @ self.W_c)
        return h_tilde, a
