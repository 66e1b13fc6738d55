import numpy as np

# 60 lines of GPT-2, now with a key/value cache.  Names follow the HF checkpoint.


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps: float = 1e-5):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.var(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(variance + eps) + b


def linear(x, w, b):
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, layer_cache):
    x = linear(x, **c_attn)
    q, k, v = np.split(x, 3, axis=-1)
    if layer_cache is not None:
        if layer_cache:
            k = np.vstack([layer_cache["k"], k])
            v = np.vstack([layer_cache["v"], v])
        layer_cache["k"], layer_cache["v"] = k, v
    heads = [np.split(a, n_head, axis=-1) for a in (q, k, v)]
    n_q, n_k = len(q), len(k)
    causal_mask = (1 - np.tri(n_q, n_k, n_k - n_q, dtype=x.dtype)) * -1e10
    out = [attention(qh, kh, vh, causal_mask) for qh, kh, vh in zip(*heads)]
    return linear(np.hstack(out), **c_proj)


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head, layer_cache):
    x = x + mha(layer_norm(x, **ln_1), **attn, n_head=n_head, layer_cache=layer_cache)
    return x + ffn(layer_norm(x, **ln_2), **mlp)


def random_params(n_vocab=50, n_ctx=32, n_embd=20, n_head=4, n_layer=2, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: {"w": r.normal(0, .2, (i, o)), "b": r.normal(0, .1, o)}
    ln = lambda: {"g": r.normal(1, .1, n_embd), "b": r.normal(0, .1, n_embd)}
    block = lambda: {
        "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
        "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
        "ln_1": ln(), "ln_2": ln(),
    }
    return {"wte": r.normal(0, .5, (n_vocab, n_embd)), "wpe": r.normal(0, .5, (n_ctx, n_embd)),
            "blocks": [block() for _ in range(n_layer)], "ln_f": ln()}


class GPT2:
    def __init__(self, params=None, n_head=4):
        self.params = random_params(n_head=n_head) if params is None else params
        self.n_head = n_head

    def new_cache(self):
        return [dict() for _ in self.params["blocks"]]

    def logits(self, inputs, cache=None):
        """inputs: list of token ids, [n_seq] -> [n_seq, n_vocab]; no batch axis"""
        p = self.params
        start = len(cache[0]["k"]) if cache and cache[0] else 0
        x = p["wte"][inputs] + p["wpe"][start:start + len(inputs)]
        for i, block in enumerate(p["blocks"]):
            x = transformer_block(x, **block, n_head=self.n_head, layer_cache=None if cache is None else cache[i])
        return layer_norm(x, **p["ln_f"]) @ p["wte"].T

    __call__ = logits

    def generate(self, inputs, n_tokens_to_generate):
        cache, feed, out = self.new_cache(), list(inputs), []
        for _ in range(n_tokens_to_generate):
            nxt = int(np.argmax(self.logits(feed, cache)[-1]))
            out.append(nxt)
            feed = [nxt]
        return out
