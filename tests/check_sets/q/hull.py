import numpy as np


class ConvexHullPointer:
    """Ptr-Net (Vinyals et al. 2015): u_j = v^T tanh(W1 e_j + W2 d_i), p(C_i) = softmax(u).

    encoder_states (n, h), decoder_states (m, h) -> (m, n)
    """

    def __init__(self, h=5, rng=np.random.default_rng(11)):
        self.W1, self.W2, self.v = rng.normal(size=(h, h)), rng.normal(size=(h, h)), rng.normal(size=h)

    def __call__(self, encoder_states, decoder_states):
        e = encoder_states @ self.W1.T
        d = decoder_states @ self.W2.T
        u = (e[None, :, :] + d[:, None, :]) @ self.v
        u = np.exp(u - u.max(axis=1, keepdims=True))
        return u / u.sum(axis=1, keepdims=True)
