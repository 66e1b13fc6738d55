"""picoGPT-style GPT-2 that writes chess moves (UCI tokens), with a KV cache. NumPy only."""
import numpy as np


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


def attention(q, k, v, mask):  # [n_q, d_k], [n_k, d_k], [n_k, d_v], [n_q, n_k] -> [n_q, d_v]
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, kvcache=None):  # [n_seq, n_embd] -> [n_seq, n_embd], kvcache
    """Causal self attention of the new positions over the cached ones and themselves.

    kvcache is [k, v] of the positions before x, or None; the grown cache is returned.
    """
    x = linear(x, **c_attn)  # [n_seq, 3*n_embd]
    q, k, v = np.split(x, 3, axis=-1)

    if kvcache is not None:
        old_k, old_v = kvcache
        k = np.vstack([old_k, k])
        v = np.vstack([old_v, v])
    new_cache = [k, v]

    q_heads, k_heads, v_heads = (np.split(t, n_head, axis=-1) for t in (q, k, v))
    n_q, n_k = len(q), len(k)
    causal_mask = (1 - np.tri(n_q, n_k, n_k - n_q, dtype=x.dtype)) * -1e10  # [n_q, n_k]

    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(q_heads, k_heads, v_heads)]
    return linear(np.hstack(out_heads), **c_proj), new_cache


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head, kvcache=None):
    attn_out, kvcache = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, kvcache=kvcache)
    x = x + attn_out
    return x + ffn(layer_norm(x, **ln_2), **mlp), kvcache


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head, kvcache=None):
    past = 0 if kvcache is None else len(kvcache[0][0])
    x = wte[inputs] + wpe[range(past, past + len(inputs))]
    kvcache = kvcache or [None] * len(blocks)
    new = []
    for block, cache in zip(blocks, kvcache):
        x, c = transformer_block(x, **block, n_head=n_head, kvcache=cache)
        new.append(c)
    return layer_norm(x, **ln_f) @ wte.T, new


def generate(inputs, params, n_head, n_moves):
    inputs, cache, feed = list(inputs), None, list(inputs)
    for _ in range(n_moves):
        logits, cache = gpt2(feed, **params, n_head=n_head, kvcache=cache)
        feed = [int(np.argmax(logits[-1]))]
        inputs += feed
    return inputs


def random_params(n_embd=32, n_layer=2, n_ctx=128, n_vocab=1970, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: {"w": r.normal(0, i**-0.5, (i, o)), "b": np.zeros(o)}
    ln = lambda: {"g": np.ones(n_embd), "b": np.zeros(n_embd)}
    block = lambda: {
        "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
        "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
        "ln_1": ln(),
        "ln_2": ln(),
    }
    return {
        "wte": r.normal(0, 0.2, (n_vocab, n_embd)),
        "wpe": r.normal(0, 0.2, (n_ctx, n_embd)),
        "blocks": [block() for _ in range(n_layer)],
        "ln_f": ln(),
    }


if __name__ == "__main__":
    print(generate([12, 796, 4], random_params(), n_head=4, n_moves=6))
