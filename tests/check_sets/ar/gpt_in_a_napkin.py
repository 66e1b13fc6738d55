# GPT-2 inference on a napkin. Companion to the blog post "what is in the .npz, really?"
# params is the nested dict you get from the TF checkpoint after conversion:
#   params["blocks"][i]["attn"]["c_attn"]["w"]  [n_embd, 3*n_embd]   columns: q | k | v
#   params["blocks"][i]["attn"]["c_proj"]["w"]  [n_embd, n_embd]
# x is [n_seq, n_embd], no batches here.
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mean, variance = np.mean(x, -1, keepdims=True), np.var(x, -1, keepdims=True)
    return g * (x - mean) / np.sqrt(variance + eps) + b


def linear(x, w, b):
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):  # [n_q, d], [n_k, d], [n_k, d], [n_q, n_k]
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, kvcache=None):
    """Causal self-attention.  With a kvcache (k, v) of the tokens before, x holds
    only the new tokens, which come after all the cached ones."""
    x = linear(x, **c_attn)                              # [n_new, 3*n_embd]
    q, k, v = np.split(x, 3, axis=-1)
    if kvcache is not None:
        k = np.vstack([kvcache[0], k])
        v = np.vstack([kvcache[1], v])
    n_new, n_all = len(q), len(k)
    past = n_all - n_new
    i, j = np.arange(n_new)[:, None], np.arange(n_all)[None]
    causal_mask = np.where(j <= i + past, 0.0, -1e10)
    heads = zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v)))
    out = np.hstack([attention(qh, kh, vh, causal_mask) for qh, kh, vh in heads])
    return linear(out, **c_proj), (k, v)


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head, kvcache=None):
    a, kvcache = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, kvcache=kvcache)
    x = x + a
    return x + ffn(layer_norm(x, **ln_2), **mlp), kvcache


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head, kvcache=None):
    if kvcache is None:
        kvcache, past = [None] * len(blocks), 0
    else:
        past = len(kvcache[0][0])
    x = wte[inputs] + wpe[past:past + len(inputs)]
    new_cache = []
    for block, c in zip(blocks, kvcache):
        x, c = transformer_block(x, **block, n_head=n_head, kvcache=c)
        new_cache.append(c)
    return layer_norm(x, **ln_f) @ wte.T, new_cache


def generate(inputs, params, n_head, n_tokens_to_generate):
    inputs, cache, todo = list(inputs), None, list(inputs)
    for _ in range(n_tokens_to_generate):
        logits, cache = gpt2(todo, **params, n_head=n_head, kvcache=cache)
        todo = [int(np.argmax(logits[-1]))]
        inputs += todo
    return inputs


def random_params(vocab=50, ctx=32, d=16, n_layer=2, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: {"w": r.normal(0, 0.3, (i, o)), "b": r.normal(0, 0.1, o)}
    ln = lambda: {"g": np.ones(d), "b": np.zeros(d)}
    blk = lambda: {"attn": {"c_attn": lin(d, 3 * d), "c_proj": lin(d, d)},
                   "mlp": {"c_fc": lin(d, 4 * d), "c_proj": lin(4 * d, d)},
                   "ln_1": ln(), "ln_2": ln()}
    return {"wte": r.normal(size=(vocab, d)), "wpe": r.normal(size=(ctx, d)),
            "blocks": [blk() for _ in range(n_layer)], "ln_f": ln()}


if __name__ == "__main__":
    print(generate([3, 1, 4], random_params(), n_head=4, n_tokens_to_generate=8))
