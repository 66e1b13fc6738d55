import numpy as np

# Forward pass of a small ALiBi language model (Press et al. 2022).
# No position embeddings: a head-specific linear penalty on the distance does the job.


def get_slopes(n):
    def power_of_2(n):
        start = 2.0 ** (-(2.0 ** -(np.log2(n) - 3)))
        return [start * start ** i for i in range(n)]
    if np.log2(n).is_integer():
        return np.array(power_of_2(n))
    m = 2 ** int(np.floor(np.log2(n)))
    return np.array(power_of_2(m) + list(get_slopes(2 * m)[0::2][: n - m]))


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(z):
    z = z - z.max(-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def init_params(vocab, d, n_layers, rng):
    blk = lambda: dict(
        g1=np.ones(d), b1=np.zeros(d), g2=np.ones(d), b2=np.zeros(d),
        wqkv=rng.normal(0, d ** -0.5, (d, 3 * d)), wo=rng.normal(0, d ** -0.5, (d, d)),
        w_in=rng.normal(0, d ** -0.5, (d, 4 * d)), w_out=rng.normal(0, (4 * d) ** -0.5, (4 * d, d)))
    return dict(emb=rng.normal(0, 1, (vocab, d)), blocks=[blk() for _ in range(n_layers)],
                gf=np.ones(d), bf=np.zeros(d))


def attention(x, blk, n_heads):
    """x: [B, T, D] -> [B, T, D]"""
    B, T, D = x.shape
    hd = D // n_heads
    q, k, v = np.split(x @ blk["wqkv"], 3, axis=-1)
    q = q.reshape(B, T, n_heads, hd).transpose(0, 2, 1, 3)
    k = k.reshape(B, T, n_heads, hd).transpose(0, 2, 3, 1)
    v = v.reshape(B, T, n_heads, hd).transpose(0, 2, 1, 3)
    logits = q @ k / np.sqrt(hd)
    i = np.arange(T)[:, None]
    j = np.arange(T)[None, :]
    dist = (i - j).clip(min=0)
    logits = logits + get_slopes(n_heads)[:, None, None] * dist
    logits = np.where(j > i, -1e30, logits)
    ctx = softmax(logits) @ v
    return ctx.transpose(0, 2, 1, 3).reshape(B, T, D) @ blk["wo"]


def lm_logits(params, ids, n_heads):
    h = params["emb"][ids]
    for blk in params["blocks"]:
        h = h + attention(layer_norm(h, blk["g1"], blk["b1"]), blk, n_heads)
        h = h + gelu(layer_norm(h, blk["g2"], blk["b2"]) @ blk["w_in"]) @ blk["w_out"]
    h = layer_norm(h, params["gf"], params["bf"])
    return h @ params["emb"].T
