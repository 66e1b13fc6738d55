"""Candidate-aware user encoder for news recommendation (inference in NumPy).

A user is a list of clicked articles.  For a candidate article c the user
vector is

    u(c) = sum_i a_i(c) * n_i,     a(c) = softmax_i( g([n_i ; c ; n_i * c]) )

so a sports candidate looks at the sports clicks.  Weights are exported from
the training job as a flat .npz.
"""
import numpy as np


def relu(x):
    return np.maximum(x, 0.0)


class Dense:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.normal(0.0, np.sqrt(2.0 / n_in), (n_in, n_out))
        self.b = np.zeros(n_out)

    def __call__(self, x):
        return x @ self.W + self.b


class UserEncoder:
    """Attention over the click history, conditioned on the candidate."""

    def __init__(self, dim=12, hidden=16, seed=0):
        rng = np.random.default_rng(seed)
        self.news = Dense(dim, dim, rng)
        self.hidden = Dense(3 * dim, hidden, rng)
        self.out = Dense(hidden, 1, rng)
        self.out.b += 1.0

    def score(self, clicks, cand):
        """clicks [B, N, D], cand [B, D] -> [B, N]"""
        c = np.broadcast_to(cand[:, None, :], clicks.shape)
        feats = np.concatenate([clicks, c, clicks * c], axis=-1)
        return self.out(relu(self.hidden(feats)))[..., 0]

    def attention(self, clicks, cand, clicked=None):
        """Weights over the history; they add up to one for every user."""
        s = self.score(clicks, cand)
        if clicked is not None:
            s = np.where(clicked, s, 0.0)
        return s / (s.sum(axis=-1, keepdims=True) + 1e-9)

    def __call__(self, clicks, cand, clicked=None):
        clicks = np.tanh(self.news(clicks))
        cand = np.tanh(self.news(cand))
        w = self.attention(clicks, cand, clicked)
        user = (w[..., None] * clicks).sum(axis=1)
        return user, (user * cand).sum(-1)


def click_probability(encoder, clicks, cand, clicked=None):
    _, logit = encoder(clicks, cand, clicked)
    return 1.0 / (1.0 + np.exp(-logit))
