"""GPT-2 transformer block in plain numpy, reading the flat OpenAI weight names.

Only what is needed to run a sequence of token vectors through one block:

    y = block(x, params, "h0/", n_head=12)

x is [T, C].  Conv1D weights are stored [in, out] and `c_attn` is [q | k | v].
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = x.var(-1, keepdims=True)
    return g * (x - m) / np.sqrt(v + eps) + b


def conv1d(x, w, b):
    return x @ w + b


def mha(x, params, prefix, n_head):
    qkv = conv1d(x, params[prefix + "c_attn/w"], params[prefix + "c_attn/b"])
    heads = [np.split(t, n_head, axis=-1) for t in np.split(qkv, 3, axis=-1)]
    n = x.shape[0]
    future = (1 - np.tri(n)) * -1e10
    out = []
    for q, k, v in zip(*heads):
        w = softmax(q @ k.T / np.sqrt(q.shape[-1]) + future)
        out.append(w @ v)
    return conv1d(np.hstack(out), params[prefix + "c_proj/w"], params[prefix + "c_proj/b"])


def mlp(x, params, prefix):
    h = gelu(conv1d(x, params[prefix + "c_fc/w"], params[prefix + "c_fc/b"]))
    return conv1d(h, params[prefix + "c_proj/w"], params[prefix + "c_proj/b"])


def block(x, params, prefix="h0/", n_head=4):
    a = layer_norm(x, params[prefix + "ln_1/g"], params[prefix + "ln_1/b"])
    x = x + mha(a, params, prefix + "attn/", n_head)
    a = layer_norm(x, params[prefix + "ln_2/g"], params[prefix + "ln_2/b"])
    return x + mlp(a, params, prefix + "mlp/")


def random_params(c=32, prefix="h0/", seed=0):
    r = np.random.default_rng(seed)
    p = {}
    for name, i, o in [("attn/c_attn", c, 3 * c), ("attn/c_proj", c, c),
                       ("mlp/c_fc", c, 4 * c), ("mlp/c_proj", 4 * c, c)]:
        p[prefix + name + "/w"] = r.normal(0, 0.2, (i, o))
        p[prefix + name + "/b"] = r.normal(0, 0.1, o)
    for name in ("ln_1", "ln_2"):
        p[prefix + name + "/g"] = np.ones(c)
        p[prefix + name + "/b"] = np.zeros(c)
    return p


if __name__ == "__main__":
    print(block(np.random.randn(7, 32), random_params()).shape)
