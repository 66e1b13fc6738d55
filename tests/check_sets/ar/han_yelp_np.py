"""Hierarchical Attention Network (Yang et al. 2016), forward pass in plain numpy, weights
loaded from an .npz that I trained elsewhere.  One document at a time:

    tokens   (S, W) int, sentence by word, 0 is padding
"""
import numpy as np


def gru_dir(x, p, reverse=False):
    """x (T, d) -> (T, h)"""
    h = np.zeros(p["U"].shape[1])
    out = np.zeros((len(x), len(h)))
    order = range(len(x) - 1, -1, -1) if reverse else range(len(x))
    sig = lambda a: 1 / (1 + np.exp(-a))
    for t in order:
        gx = [x[t] @ p["W"][i] + p["b"][i] for i in range(3)]
        r = sig(gx[0] + h @ p["U"][0])
        z = sig(gx[1] + h @ p["U"][1])
        n = np.tanh(gx[2] + r * (h @ p["U"][2]))
        h = (1 - z) * n + z * h
        out[t] = h
    return out


def bigru(x, p):
    return np.concatenate([gru_dir(x, p["fwd"]), gru_dir(x, p["bwd"], True)], axis=1)


def attend(H, W, b, u, real=None):
    """u_t = tanh(W h_t + b);  alpha_t = exp(u_t.u) / sum;  s = sum alpha_t h_t
    H (T, h); real bool (T,) or None.  Returns s (h,), alpha (T,)"""
    score = np.tanh(H @ W + b) @ u
    if real is not None:
        score = np.where(real, score, -np.inf)
        if not real.any():
            return np.zeros(H.shape[1]), np.zeros(len(H))
    alpha = np.exp(score - score.max())
    alpha /= alpha.sum()
    return alpha @ H, alpha


def document_vector(tokens, P):
    sents, word_alphas = [], []
    for row in tokens:
        n = int((row != 0).sum())                   # padding is at the end
        H = np.zeros((len(row), 2 * P["word"]["fwd"]["U"].shape[1]))
        H[:n] = bigru(P["emb"][row[:n]], P["word"])
        s, a = attend(H, *P["word_att"], real=row != 0)
        sents.append(s)
        word_alphas.append(a)
    H = bigru(np.array(sents), P["sent"])
    d, sent_alpha = attend(H, *P["sent_att"], real=(tokens != 0).any(axis=1))
    return d, sent_alpha, np.array(word_alphas)


def predict(tokens, P):
    d, sa, wa = document_vector(tokens, P)
    logit = d @ P["cls"]
    e = np.exp(logit - logit.max())
    return e / e.sum(), sa, wa


def dummy(vocab=40, d=6, h=5, a=7, classes=5, seed=0):
    r = np.random.default_rng(seed)
    g = lambda i: {"W": r.normal(size=(3, i, h)), "U": r.normal(size=(3, h, h)), "b": r.normal(size=(3, h))}
    att = lambda: (r.normal(size=(2 * h, a)), r.normal(size=a), r.normal(size=a))
    return {"emb": r.normal(size=(vocab, d)), "word": {"fwd": g(d), "bwd": g(d)},
            "sent": {"fwd": g(2 * h), "bwd": g(2 * h)}, "word_att": att(), "sent_att": att(),
            "cls": r.normal(size=(2 * h, classes))}


if __name__ == "__main__":
    t = np.array([[3, 4, 5, 0], [7, 8, 0, 0], [0, 0, 0, 0]])
    print(*predict(t, dummy()), sep="\n")
