"""GPT-2 forward pass in numpy, for people who never want to see a framework.

Weights are a plain nested dict with the names of the original TensorFlow
checkpoint (c_attn packs q, k, v in this order along the last axis, and each of
them holds its heads side by side).
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):
    return x @ w + b


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head):
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)
    heads = [np.split(part, n_head, axis=-1) for part in qkv]
    mask = (1 - np.tri(x.shape[0])) * -1e10
    out = [attention(q, k, v, mask) for q, k, v in zip(*heads)]
    return linear(np.hstack(out), **c_proj)


def block(x, mlp, attn, ln_1, ln_2, n_head):
    """x: [n_seq, n_embd] -> [n_seq, n_embd]"""
    x = x + mha(layer_norm(x, **ln_1), **attn, n_head=n_head)
    h = layer_norm(x, **ln_2)
    return x + linear(gelu(linear(h, **mlp["c_fc"])), **mlp["c_proj"])


def gpt2(ids, wte, wpe, blocks, ln_f, n_head):
    x = wte[ids] + wpe[range(len(ids))]
    for b in blocks:
        x = block(x, **b, n_head=n_head)
    return layer_norm(x, **ln_f) @ wte.T


def random_params(n_embd=16, n_vocab=50, n_ctx=32, n_layer=2, seed=0):
    r = np.random.default_rng(seed)

    def lin(i, o):
        return {"w": r.normal(0, 0.2, (i, o)), "b": r.normal(0, 0.02, o)}

    def ln():
        return {"g": 1 + r.normal(0, 0.1, n_embd), "b": r.normal(0, 0.1, n_embd)}

    d = n_embd
    return {
        "wte": r.normal(0, 0.2, (n_vocab, d)),
        "wpe": r.normal(0, 0.2, (n_ctx, d)),
        "blocks": [
            {"mlp": {"c_fc": lin(d, 4 * d), "c_proj": lin(4 * d, d)},
             "attn": {"c_attn": lin(d, 3 * d), "c_proj": lin(d, d)},
             "ln_1": ln(), "ln_2": ln()}
            for _ in range(n_layer)
        ],
        "ln_f": ln(),
    }


if __name__ == "__main__":
    print(gpt2([1, 5, 7, 2], **random_params(), n_head=4).shape)
