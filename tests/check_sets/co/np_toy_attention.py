# Self-attention step by step, no frameworks
#   1. make queries, keys, values
#   2. scores = q . k / sqrt(d)
#   3. softmax, so that every word distributes a total weight of 1 over the sentence
#   4. weighted sum of the values
import numpy as np


def softmax(x):
    z = x - np.max(x)
    e = np.exp(z)
    return e / np.sum(e)


def self_attention(X, Wq, Wk, Wv):
    """X: (words, d_in), W*: (d_in, d). Returns context (words, d) and weights (words, words)."""
    Q = np.dot(X, Wq)
    K = np.dot(X, Wk)
    V = np.dot(X, Wv)
    d = K.shape[1]
    scores = np.dot(Q, K.T) / np.sqrt(d)
    weights = softmax(scores)
    return np.dot(weights, V), weights


def layer_norm(x, eps=1e-5):
    m = x.mean(axis=-1, keepdims=True)
    s = x.std(axis=-1, keepdims=True)
    return (x - m) / (s + eps)


def encoder(X, Wq, Wk, Wv, W1, b1, W2, b2):
    ctx, _ = self_attention(X, Wq, Wk, Wv)
    h = layer_norm(X + ctx)
    ff = np.maximum(0.0, h @ W1 + b1) @ W2 + b2
    return layer_norm(h + ff)


if __name__ == "__main__":
    sentence = "the cat sat on the mat".split()
    vocab = {w: i for i, w in enumerate(sorted(set(sentence)))}
    rng = np.random.RandomState(42)
    E = rng.randn(len(vocab), 8)
    X = np.stack([E[vocab[w]] for w in sentence])
    Wq, Wk, Wv = (rng.randn(8, 8) * 0.3 for _ in range(3))
    context, A = self_attention(X, Wq, Wk, Wv)
    for w, row in zip(sentence, A):
        print(f"{w:>5}", np.round(row, 3))
    print(context.shape)
