"""Invoice field tagger. Inference only, weights in a params dict.

params = {"emb": ..., "box": ..., "layers": [{"wq","wk","wv","wo","ln","ff1","ff2","ln2"}, ...], "cls": ...}
`valid` is 1 for words of the page and 0 for the padding up to the longest page
in the batch; padded words must not receive any attention.
"""
import numpy as np

LABELS = ["O", "B-TOTAL", "I-TOTAL", "B-DATE", "I-DATE", "B-VENDOR", "I-VENDOR"]


def quantise(box, bins=32):
    """Normalised corners in [0, 1] -> integer bins."""
    return np.clip((np.asarray(box) * bins).astype(int), 0, bins - 1)


def rms(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def stable_softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    np.exp(a, out=a)
    a /= a.sum(axis=-1, keepdims=True)
    return a


def split(x, h):
    b, n, c = x.shape
    return x.reshape(b, n, h, c // h).transpose(0, 2, 1, 3)


def self_attention(x, p, valid, n_heads):
    q = split(x @ p["wq"], n_heads)
    k = split(x @ p["wk"], n_heads)
    v = split(x @ p["wv"], n_heads)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(q.shape[-1])
    scores = scores * valid[:, None, None, :]
    w = stable_softmax(scores)
    y = np.matmul(w, v).transpose(0, 2, 1, 3)
    return y.reshape(x.shape) @ p["wo"]


def layer(x, p, valid, n_heads):
    x = x + self_attention(rms(x, p["ln"]), p, valid, n_heads)
    h = rms(x, p["ln2"])
    return x + np.maximum(h @ p["ff1"], 0) @ p["ff2"]


def encode(words, boxes, valid, params, n_heads=4):
    x = params["emb"][words]
    q = quantise(boxes)
    for corner in range(4):
        x = x + params["box"][corner][q[..., corner]]
    for p in params["layers"]:
        x = layer(x, p, valid, n_heads)
    return x


def tag(words, boxes, valid, params, n_heads=4):
    logits = encode(words, boxes, valid, params, n_heads) @ params["cls"]
    best = logits.argmax(-1)
    return [[LABELS[i] for i, ok in zip(row, m) if ok] for row, m in zip(best, valid)]


def spans(tags):
    out, cur = [], None
    for i, t in enumerate(tags):
        if t.startswith("B-"):
            cur = [t[2:], i, i + 1]
            out.append(cur)
        elif t.startswith("I-") and cur and cur[0] == t[2:]:
            cur[2] = i + 1
        else:
            cur = None
    return [tuple(s) for s in out]
