"""Runs a trained LSTM seq2seq (Luong global attention, input feeding) exported to .npz. NumPy only.

params keys: emb, enc/W, enc/U, enc/b, dec/W, dec/U, dec/b, attn/Wa, attn/Wc, out/W, out/b
"""
import numpy as np

BOS, EOS, PAD = 1, 2, 0


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def lstm_step(x, h, c, p, name):
    z = x @ p[name + "/W"] + h @ p[name + "/U"] + p[name + "/b"]
    i, f, g, o = np.split(z, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def encode(src, p):
    """src [B, S] of ids, PAD at the right. Returns states [B, S, H], last (h, c), lengths [B]."""
    B, S = src.shape
    H = p["enc/U"].shape[0]
    h, c = np.zeros((B, H)), np.zeros((B, H))
    outs = []
    lengths = (src != PAD).sum(1)
    for t in range(S):
        h2, c2 = lstm_step(p["emb"][src[:, t]], h, c, p, "enc")
        live = (t < lengths)[:, None]
        h, c = np.where(live, h2, h), np.where(live, c2, c)
        outs.append(h)
    return np.stack(outs, axis=1), (h, c), lengths


def global_attention(h_t, h_s, lengths, p):
    """Luong et al. 2015, 'general' score and eq. (5).

    h_t [B, H], h_s [B, S, H], lengths [B]: number of real source tokens.
    Returns h~_t [B, H] and the alignment [B, S].
    """
    score = np.einsum("bh,hg,bsg->bs", h_t, p["attn/Wa"], h_s)
    real = np.arange(h_s.shape[1])[None, :] < np.asarray(lengths)[:, None]
    score = np.where(real, score, -np.inf)
    a = np.exp(score - score.max(axis=1, keepdims=True))
    a /= a.sum(axis=1, keepdims=True)
    ctx = np.einsum("bs,bsh->bh", a, h_s)
    return np.tanh(np.concatenate([ctx, h_t], axis=1) @ p["attn/Wc"]), a


def translate(src, p, max_len=30):
    h_s, (h, c), lengths = encode(src, p)
    B = len(src)
    feed = np.zeros_like(h)
    tok = np.full(B, BOS)
    done = np.zeros(B, bool)
    hyp, align = [], []
    for _ in range(max_len):
        x = np.concatenate([p["emb"][tok], feed], axis=1)
        h, c = lstm_step(x, h, c, p, "dec")
        feed, a = global_attention(h, h_s, lengths, p)
        tok = (feed @ p["out/W"] + p["out/b"]).argmax(1)
        tok = np.where(done, PAD, tok)
        done |= tok == EOS
        hyp.append(tok)
        align.append(a)
        if done.all():
            break
    return np.stack(hyp, 1), np.stack(align, 1)
