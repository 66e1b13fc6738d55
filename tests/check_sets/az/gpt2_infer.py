"""GPT-2 forward pass in NumPy.  Reads the flat dict made by dump_tf_checkpoint.py.

Keys:  wte, wpe, ln_f.{g,b}, h{i}.ln_1.{g,b}, h{i}.attn.c_attn.{w,b}, h{i}.attn.c_proj.{w,b},
       h{i}.ln_2.{g,b}, h{i}.mlp.c_fc.{w,b}, h{i}.mlp.c_proj.{w,b}
All weights are stored [n_in, n_out] as in the original TensorFlow code.
"""
import argparse
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def ln(x, w, pre, eps=1e-5):
    m = x.mean(axis=-1, keepdims=True)
    v = x.var(axis=-1, keepdims=True)
    return w[pre + ".g"] * (x - m) / np.sqrt(v + eps) + w[pre + ".b"]


def lin(x, w, pre):
    return x @ w[pre + ".w"] + w[pre + ".b"]


def mlp(x, w, pre):
    return lin(gelu(lin(x, w, pre + ".c_fc")), w, pre + ".c_proj")


def attn(x, w, pre, n_head, past=None):
    """x: [n_new, n_embd]; past: None or (k, v), each [n_head, n_past, d].

    Returns the projected output and the grown (k, v) pair.
    """
    n_new, n_embd = x.shape
    d = n_embd // n_head
    qkv = lin(x, w, pre + ".c_attn")                          # [n_new, 3*n_embd]
    q, k, v = [t.reshape(n_new, n_head, d).swapaxes(0, 1) for t in np.split(qkv, 3, axis=-1)]
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    n_all = k.shape[1]
    # new token i stands at place n_all - n_new + i and may look at everything up to there
    allowed = np.tri(n_new, n_all, n_all - n_new, dtype=bool)
    out = np.empty((n_new, n_embd), dtype=x.dtype)
    for h in range(n_head):
        s = q[h] @ k[h].T / np.sqrt(d)
        s[~allowed] = -np.inf
        out[:, h * d:(h + 1) * d] = softmax(s) @ v[h]
    return lin(out, w, pre + ".c_proj"), (k, v)


def block(x, w, i, n_head, past=None):
    a, kv = attn(ln(x, w, f"h{i}.ln_1"), w, f"h{i}.attn", n_head, past)
    x = x + a
    x = x + mlp(ln(x, w, f"h{i}.ln_2"), w, f"h{i}.mlp")
    return x, kv


def gpt2(ids, w, n_layer, n_head, pasts=None):
    start = 0 if pasts is None else pasts[0][0].shape[1]
    x = w["wte"][ids] + w["wpe"][start:start + len(ids)]
    grown = []
    for i in range(n_layer):
        x, kv = block(x, w, i, n_head, None if pasts is None else pasts[i])
        grown.append(kv)
    return ln(x, w, "ln_f") @ w["wte"].T, grown


def generate(prompt, w, n_layer, n_head, n_tokens):
    logits, pasts = gpt2(prompt, w, n_layer, n_head)
    out = []
    for _ in range(n_tokens):
        nxt = int(np.argmax(logits[-1]))
        out.append(nxt)
        logits, pasts = gpt2([nxt], w, n_layer, n_head, pasts)
    return out


def random_weights(n_layer, n_embd, n_vocab, n_ctx, seed=0):
    r = np.random.default_rng(seed)
    w = {"wte": r.normal(0, .3, (n_vocab, n_embd)), "wpe": r.normal(0, .1, (n_ctx, n_embd))}

    def put_lin(name, a, b):
        w[name + ".w"] = r.normal(0, a ** -0.5, (a, b))
        w[name + ".b"] = r.normal(0, .02, b)

    for name in ["ln_f"] + [f"h{i}.ln_{j}" for i in range(n_layer) for j in (1, 2)]:
        w[name + ".g"], w[name + ".b"] = np.ones(n_embd), np.zeros(n_embd)
    for i in range(n_layer):
        put_lin(f"h{i}.attn.c_attn", n_embd, 3 * n_embd)
        put_lin(f"h{i}.attn.c_proj", n_embd, n_embd)
        put_lin(f"h{i}.mlp.c_fc", n_embd, 4 * n_embd)
        put_lin(f"h{i}.mlp.c_proj", 4 * n_embd, n_embd)
    return w


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--tokens", type=int, default=8)
    args = ap.parse_args()
    w = random_weights(2, 24, 50, 64)
    print(generate([3, 14, 15, 9], w, 2, 4, args.tokens))
