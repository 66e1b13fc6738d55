"""Next song model, forward pass in NumPy (weights exported from the training job)."""
import numpy as np


def softmax(a):
    a = np.exp(a - a.max(axis=-1, keepdims=True))
    return a / a.sum()


def attend(x, Wq, Wk, Wv):
    """
    x (T, D) the songs of one session in the order they were played, Wq/Wk/Wv (D, d).

    Scaled dot-product attention (1 / sqrt d). Song t must only see songs 0..t, since the next
    song t+1 is what we predict from position t. Returns (T, d).
    """
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    T, d = q.shape
    logits = np.dot(q, k.T) / d
    visible = np.tril(np.ones((T, T)), k=1)
    logits = np.where(visible == 1, logits, -np.inf)
    return np.dot(softmax(logits), v)


def next_song(x, weights, catalogue):
    """Index of the best next song; catalogue (n_songs, d)."""
    y = attend(x, weights["q"], weights["k"], weights["v"])
    return int(np.argmax(catalogue @ y[-1]))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    w = {n: rng.standard_normal((12, 8)) for n in "qkv"}
    print(next_song(rng.standard_normal((9, 12)), w, rng.standard_normal((50, 8))))
