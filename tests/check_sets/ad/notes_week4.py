# %% [markdown]
# Week 4: self attention by hand on a toy sentence
# %%
import numpy as np

sentence = "the cat sat on the mat".split()
vocab = {w: i for i, w in enumerate(sorted(set(sentence)))}


def one_hot(words):
    m = np.zeros((len(words), len(vocab)))
    m[np.arange(len(words)), [vocab[w] for w in words]] = 1
    return m


# %%
def softmax(z):
    z_max = np.max(z, axis=-1, keepdims=True)
    return np.exp(z - z_max) / np.sum(np.exp(z), axis=-1, keepdims=True)


def self_attention(X, Wq, Wk, Wv):
    """X: (words, features). Returns new word vectors and the attention matrix."""
    Q = X @ Wq
    K = X @ Wk
    V = X @ Wv
    d_k = K.shape[1]
    scores = Q @ K.T / np.sqrt(d_k)
    A = softmax(scores)
    return A @ V, A


# %%
def multi(X, heads):
    """heads: list of (Wq, Wk, Wv)"""
    outs = [self_attention(X, *h)[0] for h in heads]
    return np.concatenate(outs, axis=-1)


# %%
if __name__ == "__main__":
    rng = np.random.default_rng(4)
    X = one_hot(sentence)
    W = lambda: rng.normal(size=(len(vocab), 3))
    print(multi(X, [(W(), W(), W()) for _ in range(2)]).shape)
