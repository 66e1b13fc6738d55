"""話者照合モデルの numpy 移植版。

PyTorch で学習した重みを .npz で受け取り、Raspberry Pi 上で動かす。
Encoder 層(post-norm)を n 個通し、時間方向に平均して埋め込みを作る。
各フレームは全フレームへの重み(和は 1)で値を混ぜる。

重みの名前: layer{i}.{q,k,v,o}.{w,b}, layer{i}.{ln1,ln2}.{g,b},
            layer{i}.{fc1,fc2}.{w,b}, cls.{w,b}
"""
import numpy as np


def softmax(x, axis=1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=axis, keepdims=True)


def linear(x, p, name):
    return x @ p[name + ".w"].T + p[name + ".b"]


def layer_norm(x, p, name):
    m = x.mean(-1, keepdims=True)
    s = np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)
    return (x - m) / s * p[name + ".g"] + p[name + ".b"]


def self_attention(x, p, prefix, n_head):
    b, t, d = x.shape

    def heads(name):
        y = linear(x, p, f"{prefix}.{name}")
        return y.reshape(b, t, n_head, d // n_head).transpose(0, 2, 1, 3)

    q, k, v = heads("q"), heads("k"), heads("v")
    score = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(d // n_head)
    weight = softmax(score)
    y = np.matmul(weight, v).transpose(0, 2, 1, 3).reshape(b, t, d)
    return linear(y, p, prefix + ".o")


def encoder_layer(x, p, prefix, n_head):
    x = layer_norm(x + self_attention(x, p, prefix, n_head), p, prefix + ".ln1")
    h = np.maximum(linear(x, p, prefix + ".fc1"), 0.0)
    return layer_norm(x + linear(h, p, prefix + ".fc2"), p, prefix + ".ln2")


class SpeakerNet:
    def __init__(self, params, n_layer=1, n_head=4):
        self.p, self.n_layer, self.n_head = params, n_layer, n_head

    def embed(self, feats):
        """feats [batch, time, dim] -> [batch, dim](L2 正規化済み)"""
        x = feats
        for i in range(self.n_layer):
            x = encoder_layer(x, self.p, f"layer{i}", self.n_head)
        e = x.mean(axis=1)
        return e / np.linalg.norm(e, axis=-1, keepdims=True)

    def posterior(self, feats):
        """登録話者の事後確率 [batch, speakers]"""
        return softmax(linear(self.embed(feats), self.p, "cls"))


def random_params(dim=24, hidden=48, speakers=5, n_layer=1, seed=0):
    r = np.random.default_rng(seed)
    p = {"cls.w": r.normal(size=(speakers, dim)), "cls.b": np.zeros(speakers)}
    for i in range(n_layer):
        for n, (o, c) in dict(q=(dim, dim), k=(dim, dim), v=(dim, dim), o=(dim, dim),
                              fc1=(hidden, dim), fc2=(dim, hidden)).items():
            p[f"layer{i}.{n}.w"] = r.normal(size=(o, c)) * c ** -0.5
            p[f"layer{i}.{n}.b"] = 0.1 * r.normal(size=o)
        for n in ("ln1", "ln2"):
            p[f"layer{i}.{n}.g"], p[f"layer{i}.{n}.b"] = np.ones(dim), np.zeros(dim)
    return p
