"""Seq2seq decoder with input feeding, teacher forcing, NumPy only.

At every step the GRU sees [embedding of the previous word ; previous attentional
vector], scores its new state against the encoder with the "general" form
s . (Wa h_j), normalises over the source words and emits
    st = tanh(Wc [context ; s]),   logits = st Wy

decode(y_in, H, lens, P)
    y_in (T, B) int   input words (time-major, starts with <s>)
    H    (S, B, d)    encoder outputs (time-major)
    lens (B,) int     source lengths, >= 1; H[j, b] with j >= lens[b] is padding
    P    dict: E (V, m); Wz, Wr, Wn (m + d, d); Uz, Ur, Un (d, d); Wa (d, d);
         Wc (2d, d); Wy (d, V)
returns logits (T, B, V), weights (T, S, B).  The state starts with the encoder
output of the last real word of each sentence, the attentional vector with 0.
"""
import numpy as np


def sig(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def gru(x, s, P):
    z = sig(x @ P["Wz"] + s @ P["Uz"])
    r = sig(x @ P["Wr"] + s @ P["Ur"])
    n = np.tanh(x @ P["Wn"] + (r * s) @ P["Un"])
    return (1 - z) * n + z * s


def decode(y_in, H, lens, P):
    S, B, d = H.shape
    lens = np.asarray(lens)
    dead = np.arange(S)[:, None] >= lens[None, :]          # (S, B)
    HW = H @ P["Wa"].T                                     # rows Wa h_j
    s = H[lens - 1, np.arange(B)]
    feed = np.zeros((B, d))
    logits, maps = [], []
    for word in y_in:
        s = gru(np.concatenate([P["E"][word], feed], 1), s, P)
        e = (HW * s).sum(-1)                               # (S, B)
        e[dead] = -np.inf
        e = np.exp(e - e.max(0))
        a = e / e.sum(0)
        ctx = np.einsum("sb,sbd->bd", a, H)
        feed = np.tanh(np.hstack([ctx, s]) @ P["Wc"])
        logits.append(feed @ P["Wy"])
        maps.append(a)
    return np.stack(logits), np.stack(maps)
