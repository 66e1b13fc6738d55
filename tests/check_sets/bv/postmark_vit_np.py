"""Чтение почтовых штемпелей: прогон обученного ViT на NumPy (без torch на сервере)."""
import numpy as np

PATCH = 4


def softmax(s):
    """Устойчивый softmax по последней оси."""
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / np.exp(s).sum(axis=-1, keepdims=True)


def layer_norm(x, w, b, eps=1e-6):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


def patches(img, p=PATCH):
    """[H, W] -> [(H/p)*(W/p), p*p], построчно."""
    h, w = img.shape
    return img.reshape(h // p, p, w // p, p).transpose(0, 2, 1, 3).reshape(-1, p * p)


class Attention:
    """Обычное многоголовое внимание; веса как в timm: qkv.weight [3D, D], proj.weight [D, D].

    Выход головы h занимает столбцы h*d ... (h+1)*d перед proj.
    """

    def __init__(self, sd, prefix, heads):
        self.qkv_w, self.qkv_b = sd[prefix + "qkv.weight"], sd[prefix + "qkv.bias"]
        self.out_w, self.out_b = sd[prefix + "proj.weight"], sd[prefix + "proj.bias"]
        self.heads = heads

    def __call__(self, x):
        L, D = x.shape
        d = D // self.heads
        qkv = (x @ self.qkv_w.T + self.qkv_b).reshape(L, 3, self.heads, d)
        q, k, v = qkv.transpose(1, 2, 0, 3)                   # по [heads, L, d]
        a = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(d))
        y = (a @ v).reshape(L, D)
        return y @ self.out_w.T + self.out_b


class Block:
    def __init__(self, sd, prefix, heads):
        self.sd, self.pre = sd, prefix
        self.attn = Attention(sd, prefix + "attn.", heads)

    def __call__(self, x):
        g = lambda n: self.sd[self.pre + n]
        x = x + self.attn(layer_norm(x, g("norm1.weight"), g("norm1.bias")))
        h = layer_norm(x, g("norm2.weight"), g("norm2.bias")) @ g("fc1.weight").T
        return x + np.maximum(h, 0) @ g("fc2.weight").T


def random_state(D=24, seed=0):
    r = np.random.default_rng(seed)
    sd = {}
    for b in (0, 1):
        p = f"blocks.{b}."
        sd[p + "attn.qkv.weight"] = r.normal(size=(3 * D, D)) / np.sqrt(D)
        sd[p + "attn.qkv.bias"] = r.normal(size=3 * D) * 0.1
        sd[p + "attn.proj.weight"] = r.normal(size=(D, D)) / np.sqrt(D)
        sd[p + "attn.proj.bias"] = np.zeros(D)
        sd[p + "fc1.weight"] = r.normal(size=(2 * D, D)) / np.sqrt(D)
        sd[p + "fc2.weight"] = r.normal(size=(D, 2 * D)) / np.sqrt(2 * D)
        for n in ("norm1", "norm2"):
            sd[p + n + ".weight"], sd[p + n + ".bias"] = np.ones(D), np.zeros(D)
    sd["embed"] = r.normal(size=(PATCH * PATCH, D))
    return sd


def read_postmark(img, sd, heads=3):
    x = patches(img) @ sd["embed"]
    for b in (0, 1):
        x = Block(sd, f"blocks.{b}.", heads)(x)
    return x.mean(0)


if __name__ == "__main__":
    print(read_postmark(np.random.default_rng(1).random((16, 16)), random_state()).shape)
