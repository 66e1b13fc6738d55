# Object-centric perception for a warehouse robot: Slot Attention in NumPy
# (inference only; weights come from a training run elsewhere).
#
# 注意：这里的 softmax 是在槽位 (slots) 维度上做的，让槽位互相竞争；
#       然后再沿输入维度归一化求加权平均。与论文 Locatello et al. 2020 一致。
import numpy as np

EPS = 1e-8


def layer_norm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def gru(p, x, h):
    gi, gh = x @ p["Wi"] + p["bi"], h @ p["Wh"] + p["bh"]
    ir, iz, inn = np.split(gi, 3, -1)
    hr, hz, hn = np.split(gh, 3, -1)
    r, z = sigmoid(ir + hr), sigmoid(iz + hz)
    n = np.tanh(inn + r * hn)
    return (1 - z) * n + z * h


def init_params(d, seed=0):
    g = np.random.default_rng(seed)
    w = lambda a, b: g.normal(0, a ** -0.5, (a, b))
    return {
        "q": w(d, d), "k": w(d, d), "v": w(d, d),
        "ln_in": (np.ones(d), np.zeros(d)), "ln_slot": (np.ones(d), np.zeros(d)),
        "ln_mlp": (np.ones(d), np.zeros(d)),
        "gru": {"Wi": w(d, 3 * d), "Wh": w(d, 3 * d), "bi": np.zeros(3 * d), "bh": np.zeros(3 * d)},
        "m1": w(d, 2 * d), "m2": w(2 * d, d),
    }


def slot_attention(params, inputs, slots, iters=3):
    """inputs (B, N, d) 像素特征, slots (B, K, d) 初始槽位

    返回 slots (B, K, d) 与 attn (B, K, N)：attn 对 K 求和等于 1。
    """
    d = slots.shape[-1]
    x = layer_norm(inputs, *params["ln_in"])
    k, v = x @ params["k"], x @ params["v"]
    attn = None
    for _ in range(iters):
        prev = slots
        q = layer_norm(slots, *params["ln_slot"]) @ params["q"]
        logits = np.einsum("bkd,bnd->bkn", q, k) / np.sqrt(d)
        logits = logits - logits.max(axis=1, keepdims=True)
        attn = np.exp(logits)
        attn = attn / attn.sum(axis=1, keepdims=True)          # 槽位竞争
        w = attn + EPS
        w = w / w.sum(axis=-1, keepdims=True)                  # 加权平均
        updates = np.einsum("bkn,bnd->bkd", w, v)
        slots = gru(params["gru"], updates, prev)
        h = layer_norm(slots, *params["ln_mlp"])
        slots = slots + np.maximum(h @ params["m1"], 0) @ params["m2"]
    return slots, attn


def segment(params, feature_map, n_slots=5, seed=0):
    """feature_map (H, W, d) -> 每个像素所属的槽位"""
    H, W, d = feature_map.shape
    s0 = np.random.default_rng(seed).normal(size=(1, n_slots, d))
    _, a = slot_attention(params, feature_map.reshape(1, H * W, d), s0)
    return a[0].argmax(0).reshape(H, W)
