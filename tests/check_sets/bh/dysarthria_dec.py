"""Attention decoder for dysarthric speech, forward pass only.

Translated from my 2016 Theano code so that the old .npz models can still be
run. Content-based (Bahdanau) attention in the recurrent decoder:

    e_tj  = v_a . (energy of decoder state s_{t-1} with annotation h_j)
    a_t   = softmax_j e_tj
    c_t   = sum_j a_tj h_j
    s_t   = GRU(s_{t-1}, [y_{t-1}; c_t])

Annotations are (T, n_batch, 2*n_hid), time first, as Theano scan liked it.
"""
import numpy as np

f32 = np.float32


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-np.clip(x, -60, 60)))


def norm_weight(rng, n_in, n_out):
    return (rng.standard_normal((n_in, n_out)) / np.sqrt(n_in)).astype(f32)


def init_params(n_hid=24, n_emb=12, n_vocab=40, n_att=20, seed=1234):
    r = np.random.default_rng(seed)
    ctx = 2 * n_hid
    p = {"Wa": norm_weight(r, n_hid, n_att), "Ua": norm_weight(r, ctx, n_att),
         "ba": np.zeros(n_att, f32), "va": norm_weight(r, n_att, 1)[:, 0],
         "emb": norm_weight(r, n_vocab, n_emb), "Wo": norm_weight(r, n_hid + ctx, n_vocab)}
    for g in "zrh":
        p["W" + g] = norm_weight(r, n_emb + ctx, n_hid)
        p["U" + g] = norm_weight(r, n_hid, n_hid)
        p["b" + g] = np.zeros(n_hid, f32)
    return p


def attend(p, s, ann, ann_mask, pctx=None):
    """s (n_batch, n_hid), ann (T, n_batch, ctx), ann_mask (T, n_batch) 1/0.

    pctx: precomputed ann @ Ua + ba. Returns the context (n_batch, ctx) and the
    alignment (T, n_batch).
    """
    if pctx is None:
        pctx = ann @ p["Ua"] + p["ba"]
    energy = pctx + (s @ p["Wa"])[None, :, :]
    e = energy @ p["va"]
    e = np.where(ann_mask > 0, e, -np.inf)
    alpha = np.exp(e - e.max(axis=0, keepdims=True))
    alpha = alpha / alpha.sum(axis=0, keepdims=True)
    return (alpha[:, :, None] * ann).sum(axis=0), alpha


def gru_step(p, s, x):
    z = sigmoid(x @ p["Wz"] + s @ p["Uz"] + p["bz"])
    r = sigmoid(x @ p["Wr"] + s @ p["Ur"] + p["br"])
    h = np.tanh(x @ p["Wh"] + (r * s) @ p["Uh"] + p["bh"])
    return (1 - z) * s + z * h


def greedy(p, ann, ann_mask, bos=0, eos=1, max_len=30):
    pctx = ann @ p["Ua"] + p["ba"]
    n = ann.shape[1]
    s = np.zeros((n, p["Wa"].shape[0]), f32)
    y = np.full(n, bos)
    done = np.zeros(n, bool)
    out, aligns = [], []
    for _ in range(max_len):
        c, a = attend(p, s, ann, ann_mask, pctx)
        s = gru_step(p, s, np.concatenate([p["emb"][y], c], 1))
        y = np.where(done, eos, (np.concatenate([s, c], 1) @ p["Wo"]).argmax(1))
        done |= y == eos
        out.append(y)
        aligns.append(a)
        if done.all():
            break
    return np.array(out), np.array(aligns)


if __name__ == "__main__":
    P = init_params()
    A = np.random.default_rng(0).standard_normal((15, 3, 48)).astype(f32)
    print(greedy(P, A, np.ones((15, 3)))[0].shape)
