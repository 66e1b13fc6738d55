"""picoGPT with a key/value cache: ~90 lines of numpy, GPT-2 weights as nested dicts."""
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


def causal_mask(n_q, n_k):
    """additive; the n_q queries are the last n_q of the n_k positions"""
    pos_q = np.arange(n_k - n_q, n_k)[:, None]
    pos_k = np.arange(n_k)[None, :]
    return np.where(pos_k > pos_q + 1, -1e10, 0.0)


def mha(x, c_attn, c_proj, n_head, past=None):  # [n, d], past: None or (k, v) of shape [n_past, d]
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    if past is not None:
        k = np.vstack([past[0], k])
        v = np.vstack([past[1], v])
    mask = causal_mask(q.shape[0], k.shape[0])
    heads = zip(*(np.split(m, n_head, axis=-1) for m in (q, k, v)))
    out = np.hstack([attention(*h, mask) for h in heads])
    return linear(out, **c_proj), (k, v)


def block(x, mlp, attn, ln_1, ln_2, n_head, past=None):
    a, present = mha(layer_norm(x, **ln_1), **attn, n_head=n_head, past=past)
    x = x + a
    return x + ffn(layer_norm(x, **ln_2), **mlp), present


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head, past=None):  # [n] -> [n, n_vocab]
    start = 0 if past is None else past[0][0].shape[0]
    x = wte[inputs] + wpe[start : start + len(inputs)]
    present = []
    for i, b in enumerate(blocks):
        x, kv = block(x, **b, n_head=n_head, past=None if past is None else past[i])
        present.append(kv)
    return layer_norm(x, **ln_f) @ wte.T, present


def generate(inputs, params, n_head, n_tokens_to_generate):
    out, past, feed = list(inputs), None, list(inputs)
    for _ in range(n_tokens_to_generate):
        logits, past = gpt2(feed, **params, n_head=n_head, past=past)
        feed = [int(np.argmax(logits[-1]))]
        out += feed
    return out[len(inputs) :]


def sequence_loss(ids, params, n_head):
    """mean negative log-likelihood of ids[1:]"""
    logits, _ = gpt2(ids[:-1], **params, n_head=n_head)
    p = softmax(logits)[np.arange(len(ids) - 1), ids[1:]]
    return -np.log(p).mean()


def random_params(vocab=50, ctx=64, d=32, n_layer=2, seed=0):
    rng = np.random.default_rng(seed)
    lin = lambda i, o: {"w": rng.normal(size=(i, o)) * 0.2, "b": rng.normal(size=o) * 0.02}
    ln = lambda: {"g": np.ones(d), "b": np.zeros(d)}
    return {
        "wte": rng.normal(size=(vocab, d)) * 0.3,
        "wpe": rng.normal(size=(ctx, d)) * 0.1,
        "blocks": [
            {
                "mlp": {"c_fc": lin(d, 4 * d), "c_proj": lin(4 * d, d)},
                "attn": {"c_attn": lin(d, 3 * d), "c_proj": lin(d, d)},
                "ln_1": ln(),
                "ln_2": ln(),
            }
            for _ in range(n_layer)
        ],
        "ln_f": ln(),
    }


if __name__ == "__main__":
    P = random_params()
    print(generate([1, 2, 3, 4], P, 4, 6), sequence_loss([1, 2, 3, 4, 5], P, 4))
