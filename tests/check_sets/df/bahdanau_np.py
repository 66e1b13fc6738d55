"""Forward pass of one RNNsearch decoder step (Bahdanau, Cho, Bengio 2015), no autograd."""
import numpy as np


def sigm(x):
    return 1.0 / (1.0 + np.exp(-x))


def make_params(emb, hid, enc, att, seed=0):
    g = np.random.default_rng(seed)
    m = lambda *s: g.normal(0, 0.3, s)
    return dict(Wa=m(hid, att), Ua=m(enc, att), va=m(att),
                Wz=m(emb + enc, hid), Uz=m(hid, hid), Wr=m(emb + enc, hid), Ur=m(hid, hid),
                W=m(emb + enc, hid), U=m(hid, hid))


def rnnsearch_step(p, y_prev, s_prev, h, lengths):
    """
    y_prev  (B, emb)      embedding of the last target word
    s_prev  (B, hid)      decoder state
    h       (B, Tx, enc)  encoder annotations
    lengths (B,)          number of real source words, at least 1
    returns s (B, hid), context (B, enc), alpha (B, Tx)
    """
    e = np.tanh((s_prev @ p["Wa"])[:, None, :] + h @ p["Ua"]) @ p["va"]
    pad = np.arange(h.shape[1])[None, :] >= lengths[:, None]
    e = np.where(pad, -np.inf, e)
    e = np.exp(e - e.max(axis=1, keepdims=True))
    alpha = e / e.sum(axis=1, keepdims=True)
    context = np.einsum("bt,bte->be", alpha, h)

    inp = np.concatenate([y_prev, context], axis=-1)
    z = sigm(inp @ p["Wz"] + s_prev @ p["Uz"])
    r = sigm(inp @ p["Wr"] + s_prev @ p["Ur"])
    cand = np.tanh(inp @ p["W"] + (r * s_prev) @ p["U"])
    return (1 - z) * s_prev + z * cand, context, alpha
