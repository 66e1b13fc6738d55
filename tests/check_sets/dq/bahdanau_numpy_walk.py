"""Notebook: "What did Bahdanau et al. (2015) actually compute?"

Before dot products there was a tiny neural network that scored each pair of
(decoder state s_i, encoder state h_j):

    e_ij = v . tanh(W s_i + U h_j)          a_i = softmax over j of e_ij
"""
import numpy as np


def additive_attention(states, annotations, W, U, v, lengths):
    """Context vectors for all decoder steps at once (teacher forcing).

    states      : (B, T, n)   decoder states s_i
    annotations : (B, S, m)   encoder states h_j, padded on the right
    W : (a, n)   U : (a, m)   v : (a,)
    lengths     : (B,) ints >= 1, the number of real source words per sentence
    Returns (contexts (B, T, m), alphas (B, T, S)). Padded words get alpha 0, the
    alphas of every decoder step sum to 1.
    """
    S = annotations.shape[1]

    # The products with W and U do not depend on the pair, so take them out of
    # the double loop ...
    Ws = states @ W.T                     # (B, T, a)
    Uh = annotations @ U.T                # (B, S, a)

    # ... and let broadcasting build the pairs.
    hidden = np.tanh(Ws[:, :, None] + Uh[:, None])        # (B, T, S, a)
    e = hidden @ v                                        # (B, T, S)

    real = np.arange(S) < lengths[:, None]                # (B, S)
    real = real[:, None, :]

    # |e| <= sum |v| here, but we subtract the largest one out of habit.
    top = np.max(e, axis=2, keepdims=True, initial=-1e300, where=real)
    alphas = np.where(real, np.exp(np.minimum(e - top, 0.0)), 0.0)
    alphas = alphas / alphas.sum(axis=2, keepdims=True)

    contexts = np.einsum("bts,bsm->btm", alphas, annotations)
    return contexts, alphas


if __name__ == "__main__":
    g = np.random.default_rng(2)
    c, a = additive_attention(g.normal(size=(2, 3, 4)), g.normal(size=(2, 5, 6)),
                              g.normal(size=(7, 4)), g.normal(size=(7, 6)),
                              g.normal(size=7), np.array([5, 2]))
    print(c.shape, a[1].round(2))
