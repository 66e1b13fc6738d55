"""Prompt pass of a llama-like block in NumPy. Checked against nothing yet."""
import numpy as np


def softmax(a):
    a = a - np.max(a, axis=-1, keepdims=True)
    a = np.exp(a)
    return a / np.sum(a, axis=-1, keepdims=True)


def prompt_attention(x, wq, wk, wv, wo, n_head, n_kv):
    """x [L, D]; wq [D, n_head*d]; wk, wv [D, n_kv*d]; wo [n_head*d, D]. Causal.

    Grouped heads as in the checkpoints: n_head // n_kv consecutive query heads share one key/value
    head, i.e. with 8 and 2, query heads 0-3 use the first and 4-7 the second.
    (The rotary part is done by the caller, on wq and wk outputs of the previous tool.)
    """
    L = x.shape[0]
    d = wq.shape[1] // n_head
    q = (x @ wq).reshape(L, n_head, d).transpose(1, 0, 2)
    k = (x @ wk).reshape(L, n_kv, d).transpose(1, 0, 2)
    v = (x @ wv).reshape(L, n_kv, d).transpose(1, 0, 2)
    group = n_head // n_kv
    k = np.tile(k, (group, 1, 1))
    v = np.tile(v, (group, 1, 1))
    s = q @ k.transpose(0, 2, 1) / np.sqrt(d)
    s = np.where(np.tri(L, dtype=bool), s, -np.inf)
    y = softmax(s) @ v
    return y.transpose(1, 0, 2).reshape(L, -1) @ wo
