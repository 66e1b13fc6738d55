"""GPT-2 in NumPy with chunked prefill: a long prompt goes through the model in pieces, the
keys and values of the earlier pieces wait in a list. Weights are a dict with the names of
the published checkpoint (Conv1D kernels, i.e. in x out)."""
import numpy as np


def softmax(x):
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def ln(x, g, b, eps=1e-5):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


def conv1d(x, W, name):
    return x @ W[name + ".weight"] + W[name + ".bias"]


def mha(x, W, name, n_head, past=None):
    """x [n, D] the newest tokens. past: None or (k, v), each [n_head, n_past, d].

    Every token sees all past tokens, itself and the tokens before it in the chunk.
    Returns [n, D] and the longer (k, v).
    """
    n, D = x.shape
    q, k, v = np.split(conv1d(x, W, name + ".c_attn"), 3, axis=-1)
    q, k, v = (np.stack(np.split(t, n_head, axis=-1)) for t in (q, k, v))
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    m = k.shape[1]
    scores = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(D // n_head)
    if n > 1:
        visible = np.tril(np.ones((n, m), dtype=bool))
        scores = np.where(visible, scores, -1e10)
    y = np.matmul(softmax(scores), v)
    y = np.concatenate(list(y), axis=-1)
    return conv1d(y, W, name + ".c_proj"), (k, v)


def block(x, W, name, n_head, past):
    a, present = mha(ln(x, W[name + ".ln_1.weight"], W[name + ".ln_1.bias"]), W, name + ".attn", n_head, past)
    x = x + a
    h = ln(x, W[name + ".ln_2.weight"], W[name + ".ln_2.bias"])
    return x + conv1d(gelu(conv1d(h, W, name + ".mlp.c_fc")), W, name + ".mlp.c_proj"), present


def forward(ids, W, n_head, n_layer, pasts=None):
    pasts = pasts or [None] * n_layer
    start = 0 if pasts[0] is None else pasts[0][0].shape[1]
    x = W["wte.weight"][ids] + W["wpe.weight"][start:start + len(ids)]
    out = []
    for i in range(n_layer):
        x, p = block(x, W, f"h.{i}", n_head, pasts[i])
        out.append(p)
    return ln(x, W["ln_f.weight"], W["ln_f.bias"]) @ W["wte.weight"].T, out


def prefill(ids, W, n_head, n_layer, chunk=64):
    pasts, logits = None, None
    for lo in range(0, len(ids), chunk):
        logits, pasts = forward(ids[lo:lo + chunk], W, n_head, n_layer, pasts)
    return logits, pasts


def generate(ids, W, n_head, n_layer, n_new, chunk=64):
    ids = list(ids)
    logits, pasts = prefill(ids, W, n_head, n_layer, chunk)
    for _ in range(n_new):
        ids.append(int(np.argmax(logits[-1])))
        logits, pasts = forward(ids[-1:], W, n_head, n_layer, pasts)
    return ids
