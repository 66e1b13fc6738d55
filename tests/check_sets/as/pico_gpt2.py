"""GPT-2 forward pass in plain NumPy, with chunked prefill.

Long prompts are fed in chunks of `chunk` tokens; each block keeps its keys and
values in `past`, so that the result must equal one pass over the whole prompt.
"""
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


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head, past=None):
    """x [n_new, n_embd] -> ([n_new, n_embd], (k, v)). A token attends to itself
    and to everything before it, the cached part included."""
    x = linear(x, **c_attn)
    q, k, v = np.split(x, 3, axis=-1)
    if past is not None:
        k = np.vstack([past[0], k])
        v = np.vstack([past[1], v])
    heads = lambda t: np.split(t, n_head, axis=-1)
    causal_mask = (1 - np.tri(q.shape[0], k.shape[0], dtype=x.dtype)) * -1e10
    out = [attention(qh, kh, vh, causal_mask) for qh, kh, vh in zip(heads(q), heads(k), heads(v))]
    return linear(np.hstack(out), **c_proj), (k, v)


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    x = x + ffn(layer_norm(x, **ln_2), **mlp)
    return x, present


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head, pasts=None):
    start = 0 if pasts is None else pasts[0][0].shape[0]
    x = wte[inputs] + wpe[start : start + len(inputs)]
    presents = []
    for i, block in enumerate(blocks):
        x, present = transformer_block(x, **block, n_head=n_head, past=None if pasts is None else pasts[i])
        presents.append(present)
    return layer_norm(x, **ln_f) @ wte.T, presents


def prefill(prompt, params, n_head, chunk=64):
    pasts, logits = None, []
    for lo in range(0, len(prompt), chunk):
        y, pasts = gpt2(prompt[lo : lo + chunk], **params, n_head=n_head, pasts=pasts)
        logits.append(y)
    return np.concatenate(logits), pasts


def generate(prompt, params, n_head, n_tokens, chunk=64):
    logits, pasts = prefill(prompt, params, n_head, chunk)
    out = []
    for _ in range(n_tokens):
        out.append(int(np.argmax(logits[-1])))
        logits, pasts = gpt2([out[-1]], **params, n_head=n_head, pasts=pasts)
    return out


def random_params(n_vocab, n_ctx, n_embd, n_layer, seed=0):
    r = np.random.default_rng(seed)
    lin = lambda i, o: {"w": r.normal(0, i**-0.5, (i, o)), "b": r.normal(0, 0.02, o)}
    ln = lambda: {"g": np.ones(n_embd), "b": np.zeros(n_embd)}
    blocks = [
        {
            "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
            "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
            "ln_1": ln(),
            "ln_2": ln(),
        }
        for _ in range(n_layer)
    ]
    return {"wte": r.normal(size=(n_vocab, n_embd)), "wpe": r.normal(size=(n_ctx, n_embd)) * 0.1, "blocks": blocks, "ln_f": ln()}
