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


def linear(x, w, b):  # [m, in], [in, out], [out] -> [m, out]
    return x @ w + b


def ffn(x, c_fc, c_proj):  # [n_seq, n_embd] -> [n_seq, n_embd]
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):  # [n_q, d_k], [n_k, d_k], [n_k, d_v], [n_q, n_k] -> [n_q, d_v]
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head):  # [n_seq, n_embd] -> [n_seq, n_embd]
    # qkv projection
    x = linear(x, **c_attn)  # [n_seq, n_embd] -> [n_seq, 3*n_embd]

    # split into qkv, then into heads
    qkv = np.split(x, 3, axis=-1)
    qkv_heads = list(map(lambda t: np.split(t, n_head, axis=-1), qkv))  # [3, n_head, n_seq, n_embd/n_head]

    # causal mask to hide future inputs from being attended to
    causal_mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10  # [n_seq, n_seq]

    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]
    x = np.hstack(out_heads)
    return linear(x, **c_proj)


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head):
    x = x + mha(layer_norm(x, **ln_1), **attn, n_head=n_head)
    x = x + ffn(layer_norm(x, **ln_2), **mlp)
    return x


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head):  # [n_seq] -> [n_seq, n_vocab]
    x = wte[inputs] + wpe[range(len(inputs))]
    for block in blocks:
        x = transformer_block(x, **block, n_head=n_head)
    x = layer_norm(x, **ln_f)
    return x @ wte.T


def random_params(n_vocab=50, n_ctx=32, n_embd=24, n_layer=2, seed=0):
    rng = np.random.default_rng(seed)

    def lin(i, o):
        return {"w": rng.normal(0, 0.2, (i, o)), "b": rng.normal(0, 0.02, o)}

    def ln():
        return {"g": np.ones(n_embd), "b": np.zeros(n_embd)}

    blocks = [
        {
            "mlp": {"c_fc": lin(n_embd, 4 * n_embd), "c_proj": lin(4 * n_embd, n_embd)},
            "attn": {"c_attn": lin(n_embd, 3 * n_embd), "c_proj": lin(n_embd, n_embd)},
            "ln_1": ln(),
            "ln_2": ln(),
        }
        for _ in range(n_layer)
    ]
    return {"wte": rng.normal(0, 0.2, (n_vocab, n_embd)), "wpe": rng.normal(0, 0.2, (n_ctx, n_embd)),
            "blocks": blocks, "ln_f": ln()}


class NanoGPT2:
    """Random weights, same layout as the released checkpoint; swap `params` for the real ones."""

    def __init__(self, n_head=4, **sizes):
        self.n_head = n_head
        self.params = random_params(**sizes)

    def __call__(self, inputs):
        return gpt2(inputs, **self.params, n_head=self.n_head)

    def generate(self, inputs, n_tokens_to_generate):
        inputs = list(inputs)
        for _ in range(n_tokens_to_generate):
            inputs.append(int(np.argmax(self(inputs)[-1])))
        return inputs[-n_tokens_to_generate:]
