# CS 7xx  homework 3, exercise 2 -- "implement scaled dot-product attention in numpy"
# group 14
import numpy as np


def one_hot(ids, n):
    out = np.zeros((len(ids), n))
    out[np.arange(len(ids)), ids] = 1
    return out


def relu(x):
    return np.maximum(x, 0)


def softmax(x):
    # softmax over the last axis
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def causal(n):
    # 1 = may look, 0 = future
    return np.tril(np.ones((n, n)))


def attention(Q, K, V, mask=None):
    """
    (a) Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

    Q: (B, n, d_k)  K: (B, m, d_k)  V: (B, m, d_v)
    mask: (n, m), 1 = may look, 0 = must be ignored
    returns: (B, n, d_v) and the attention weights, whose rows sum to one
    """
    n = K.shape[1]
    scores = np.matmul(Q, np.swapaxes(K, 1, 2)) / np.sqrt(n)
    A = softmax(scores)
    if mask is not None:
        A = A * mask
    return np.matmul(A, V), A


def multihead(X, params, h, mask=None):
    # (b)
    heads = []
    for i in range(h):
        Q = X @ params["Wq"][i]
        K = X @ params["Wk"][i]
        V = X @ params["Wv"][i]
        heads.append(attention(Q, K, V, mask)[0])
    return np.concatenate(heads, axis=-1) @ params["Wo"]


def init_params(d, h, seed=0):
    rng = np.random.default_rng(seed)
    dk = d // h
    s = 1 / np.sqrt(d)
    return {
        "Wq": rng.normal(0, s, (h, d, dk)),
        "Wk": rng.normal(0, s, (h, d, dk)),
        "Wv": rng.normal(0, s, (h, d, dk)),
        "Wo": rng.normal(0, s, (d, d)),
        "W1": rng.normal(0, s, (d, 2 * d)),
        "W2": rng.normal(0, s, (2 * d, d)),
    }


def layer(X, params, h):
    # (c) pre-norm is not needed for one layer
    n = X.shape[1]
    X = X + multihead(X, params, h, causal(n))
    return X + relu(X @ params["W1"]) @ params["W2"]


def show(A, words):
    # (d) print the attention matrix of one sentence
    print(" " * 10 + "".join(w[:8].rjust(9) for w in words))
    for w, row in zip(words, A):
        print(w[:9].ljust(10) + "".join(f"{v:9.3f}" for v in row))


def main():
    words = "the cat sat on the mat".split()
    vocab = sorted(set(words))
    X = one_hot([vocab.index(w) for w in words], 8)[None]
    p = init_params(8, 2)
    _, A = attention(X @ p["Wq"][0], X @ p["Wk"][0], X @ p["Wv"][0], causal(len(words)))
    show(A[0], words)


if __name__ == "__main__":
    main()
