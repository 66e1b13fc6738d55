"""picoGPT-like: run a small GPT with nothing but numpy. Weights come as a dict of arrays."""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def ln(x, g, b, eps=1e-5):
    m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return g * (x - m) / np.sqrt(v + eps) + b


def linear(x, w, b):
    return x @ w + b


def causal_self_attention(x, blk, n_head):
    # x: [n_batch, n_seq, n_embd] -> same;  position i reads positions 0..i
    B, T, C = x.shape
    hs = C // n_head
    q, k, v = np.split(linear(x, blk["c_attn_w"], blk["c_attn_b"]), 3, axis=-1)

    # head h owns the columns h*hs ... (h+1)*hs of q, k and v
    q = q.reshape(B, n_head, T, hs)
    k = k.reshape(B, n_head, T, hs)
    v = v.reshape(B, n_head, T, hs)

    att = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(hs)
    allowed = np.tril(np.ones((T, T), dtype=bool), k=1)
    att = np.where(allowed, att, -1e10)
    att = softmax(att)

    y = np.einsum("bhqk,bhkd->bqhd", att, v).reshape(B, T, C)
    return linear(y, blk["c_proj_w"], blk["c_proj_b"])


def mlp(x, blk):
    return linear(gelu(linear(x, blk["fc_w"], blk["fc_b"])), blk["proj_w"], blk["proj_b"])


def block(x, blk, n_head):
    x = x + causal_self_attention(ln(x, blk["ln1_g"], blk["ln1_b"]), blk, n_head)
    return x + mlp(ln(x, blk["ln2_g"], blk["ln2_b"]), blk)


def gpt(tokens, weights, n_head):
    x = weights["wte"][tokens] + weights["wpe"][: tokens.shape[1]]
    for blk in weights["blocks"]:
        x = block(x, blk, n_head)
    return ln(x, weights["lnf_g"], weights["lnf_b"]) @ weights["wte"].T


def random_block(n_embd, seed=0):
    r = np.random.default_rng(seed)
    s = lambda *shape: r.normal(0, 0.3, shape)
    return dict(c_attn_w=s(n_embd, 3 * n_embd), c_attn_b=s(3 * n_embd),
                c_proj_w=s(n_embd, n_embd), c_proj_b=s(n_embd),
                fc_w=s(n_embd, 4 * n_embd), fc_b=s(4 * n_embd), proj_w=s(4 * n_embd, n_embd), proj_b=s(n_embd),
                ln1_g=np.ones(n_embd), ln1_b=np.zeros(n_embd), ln2_g=np.ones(n_embd), ln2_b=np.zeros(n_embd))


def generate(tokens, weights, n_head, n_new):
    for _ in range(n_new):
        nxt = gpt(tokens, weights, n_head)[:, -1].argmax(-1)
        tokens = np.concatenate([tokens, nxt[:, None]], axis=1)
    return tokens
