"""NumPy GPT decoder block (inference). Weights come from a dict; see `random_weights` for the shapes."""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mean = np.mean(x, axis=-1, keepdims=True)
    variance = np.var(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(variance + eps) + b


def linear(x, w, b):
    return x @ w + b


def attention(q, k, v):
    """causal scaled dot-product attention, q, k, v: (n_seq, d_head)"""
    visible = np.tril(np.ones((q.shape[0], k.shape[0])))
    scores = q @ k.T / q.shape[-1]
    weights = softmax(scores) * visible
    return weights @ v


def mha(x, c_attn, c_proj, n_head):
    x = linear(x, **c_attn)                                  # (n_seq, 3 * n_embd)
    qkv = np.split(x, 3, axis=-1)
    heads = [np.split(t, n_head, axis=-1) for t in qkv]      # 3 x n_head x (n_seq, d_head)
    out = [attention(q, k, v) for q, k, v in zip(*heads)]
    return linear(np.hstack(out), **c_proj)


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def transformer_block(x, weights, n_head=4):
    """x: (n_seq, n_embd). Pre-norm, each position sees itself and what is before it."""
    x = x + mha(layer_norm(x, **weights["ln_1"]), **weights["attn"], n_head=n_head)
    x = x + ffn(layer_norm(x, **weights["ln_2"]), **weights["mlp"])
    return x


def random_weights(n_embd=32, seed=0):
    rng = np.random.default_rng(seed)

    def lin(i, o):
        return {"w": rng.normal(0, i ** -0.5, (i, o)), "b": np.zeros(o)}

    def ln():
        return {"g": np.ones(n_embd), "b": np.zeros(n_embd)}

    return {
        "ln_1": ln(),
        "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
        "ln_2": ln(),
        "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
    }
