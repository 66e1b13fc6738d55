"""GPT-2 forward pass on plain numpy arrays. Weights come from a nested dict, see load_params."""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


def linear(x, w, b):
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, past=None):
    """x [n, e]; past is (k, v) of what came before, each [n_past, e]. One sequence, no batch."""
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    if past is not None:
        k = np.concatenate([past[0], k])
        v = np.concatenate([past[1], v])
    n_q, n_k = len(q), len(k)
    causal = (1 - np.tri(n_q, n_k, n_k - n_q)) * -1e10

    split = lambda t: np.split(t, n_head, axis=-1)
    heads = [attention(*qkv, causal) for qkv in zip(split(q), split(k), split(v))]
    return linear(np.hstack(heads), **c_proj), (k, v)


def block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    return x + ffn(layer_norm(x, **ln_2), **mlp), present


def gpt2(ids, wte, wpe, blocks, ln_f, n_head, pasts=None):
    start = 0 if pasts is None else len(pasts[0][0])
    x = wte[ids] + wpe[start:start + len(ids)]
    presents = []
    for i, blk in enumerate(blocks):
        x, p = block(x, **blk, n_head=n_head, past=None if pasts is None else pasts[i])
        presents.append(p)
    return layer_norm(x, **ln_f) @ wte.T, presents


def generate(ids, params, n_head, n_new):
    ids, pasts, feed = list(ids), None, list(ids)
    for _ in range(n_new):
        logits, pasts = gpt2(feed, **params, n_head=n_head, pasts=pasts)
        feed = [int(np.argmax(logits[-1]))]
        ids += feed
    return ids


def load_params(flat):
    """{'h0.attn.c_attn.w': array, ...} -> the nested dict that gpt2() takes."""
    out = {"blocks": {}}
    for name, arr in flat.items():
        node, parts = out, name.split(".")
        if parts[0].startswith("h") and parts[0][1:].isdigit():
            node = out["blocks"].setdefault(int(parts[0][1:]), {})
            parts = parts[1:]
        for p in parts[:-1]:
            node = node.setdefault(p, {})
        node[parts[-1]] = arr
    out["blocks"] = [out["blocks"][i] for i in sorted(out["blocks"])]
    return out


def random_params(rng, n_layer=2, e=24, vocab=50, ctx=64):
    w = lambda *s: rng.normal(0, 0.2, s)
    f = {"wte": w(vocab, e), "wpe": w(ctx, e), "ln_f.g": np.ones(e), "ln_f.b": np.zeros(e)}
    for i in range(n_layer):
        for n, (a, b) in {"attn.c_attn": (e, 3 * e), "attn.c_proj": (e, e),
                          "mlp.c_fc": (e, 4 * e), "mlp.c_proj": (4 * e, e)}.items():
            f[f"h{i}.{n}.w"], f[f"h{i}.{n}.b"] = w(a, b), w(b)
        for n in ("ln_1", "ln_2"):
            f[f"h{i}.{n}.g"], f[f"h{i}.{n}.b"] = np.ones(e), np.zeros(e)
    return load_params(f)


if __name__ == "__main__":
    print(generate([1, 2, 3], random_params(np.random.default_rng(0)), n_head=4, n_new=8))
