"""GPT-2 inference in plain NumPy, with a key/value cache.

Written for the blog post "How much of GPT-2 fits on one page?". Weights are a
nested dict with the names of the OpenAI checkpoint (c_attn, c_proj, ...), no
batch axis: every array is [n_seq, n_embd].

    logits, past = gpt2(ids, weights, n_head)            # prompt
    logits, past = gpt2([next_id], weights, n_head, past)  # one more token
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def mha(x, c_attn, c_proj, n_head, past=None):
    n = len(x)
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    if past is not None:
        k = np.concatenate([past[0], k])
        v = np.concatenate([past[1], v])
    present = (k, v)
    m = len(k)
    hide = np.arange(m)[None, :] > np.arange(m - n, m)[:, None]
    outs = []
    for qh, kh, vh in zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v))):
        s = qh @ kh.T / np.sqrt(qh.shape[-1])
        s[hide] = -np.inf
        outs.append(softmax(s) @ vh)
    return linear(np.hstack(outs), **c_proj), present


def block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    h = gelu(linear(layer_norm(x, **ln_2), **mlp["c_fc"]))
    return x + linear(h, **mlp["c_proj"]), present


def gpt2(ids, weights, n_head, past=None):
    """Next-token logits [n_seq, n_vocab] for `ids`, which follow what `past` holds."""
    start = 0 if past is None else len(past[0][0])
    x = weights["wte"][ids] + weights["wpe"][start:start + len(ids)]
    presents = []
    for i, blk in enumerate(weights["blocks"]):
        x, p = block(x, **blk, n_head=n_head, past=None if past is None else past[i])
        presents.append(p)
    return layer_norm(x, **weights["ln_f"]) @ weights["wte"].T, presents


def random_weights(n_vocab=40, n_ctx=16, n_embd=24, n_layer=2, seed=0):
    r = np.random.default_rng(seed)

    def lin(i, o):
        return {"w": r.normal(0, 0.2, (i, o)), "b": r.normal(0, 0.02, o)}

    def ln():
        return {"g": np.ones(n_embd), "b": np.zeros(n_embd)}

    blocks = [{"attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
               "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
               "ln_1": ln(), "ln_2": ln()} for _ in range(n_layer)]
    return {"wte": r.normal(0, 1, (n_vocab, n_embd)), "wpe": r.normal(0, 0.1, (n_ctx, n_embd)),
            "blocks": blocks, "ln_f": ln()}


if __name__ == "__main__":
    w = random_weights()
    ids, out = [3, 1, 4], []
    logits, past = gpt2(ids, w, n_head=4)
    for _ in range(8):
        out.append(int(logits[-1].argmax()))
        logits, past = gpt2(out[-1:], w, n_head=4, past=past)
    print(out)
