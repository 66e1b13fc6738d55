import numpy as np

# A Structured Self-Attentive Sentence Embedding (Lin et al., 2017), forward pass only


def masked_softmax(x, mask):
    # x: (B, r, n); mask: (B, n), 1 for words
    x = x - x.max(axis=2, keepdims=True)
    e = np.exp(x) * mask[:, None, :]
    return e / e.sum(axis=2, keepdims=True)


class SelfAttentiveEncoder:
    def __init__(self, input_dim, da=16, r=4, seed=0):
        rng = np.random.RandomState(seed)
        self.W_s1 = rng.randn(da, input_dim) * 0.3
        self.W_s2 = rng.randn(r, da) * 0.3

    def annotate(self, H, mask=None):
        """A = softmax(W_s2 tanh(W_s1 H^T)), shape (B, r, n)"""
        S = np.tanh(H @ self.W_s1.T)                     # (B, n, da)
        A = np.transpose(S @ self.W_s2.T, (0, 2, 1))     # (B, r, n)
        if mask is None:
            mask = np.ones(H.shape[:2])
        return masked_softmax(A, mask)

    def __call__(self, H, mask=None):
        """H: (B, n, 2u) hidden states of the biLSTM. Returns M (B, r, 2u) and A."""
        A = self.annotate(H, mask)
        return A @ H, A

    @staticmethod
    def penalty(A):
        """|| A A^T - I ||_F^2, averaged over the batch"""
        AAT = A @ np.transpose(A, (0, 2, 1))
        return np.mean(np.sum((AAT - np.eye(A.shape[1])) ** 2, axis=(1, 2)))
