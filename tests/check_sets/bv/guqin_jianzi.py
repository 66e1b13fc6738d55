# -*- coding: utf-8 -*-
"""古琴减字谱生成模型的 NumPy 推理。

预训练权重用 ALiBi 训练，斜率与原论文公开的代码一致（头数不是 2 的幂时也一样），
本模型为 12 头。其余为普通的因果多头注意力。
"""
import numpy as np

N_HEADS = 12


def slopes(n):
    """每个头的斜率，n 为头数。"""
    first = 2.0 ** (-8.0 / n)
    return np.array([first ** (i + 1) for i in range(n)])


def softmax_(x):
    """就地 softmax（最后一维），返回 x 本身。"""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def alibi_attention(x, W, n_heads=N_HEADS):
    """x: [T, D]；W: {'qkv': [D, 3D], 'o': [D, D]}，qkv 按 q、k、v 依次排列。返回 [T, D]。"""
    T, D = x.shape
    d = D // n_heads
    q, k, v = (t.reshape(T, n_heads, d).transpose(1, 0, 2) for t in np.split(x @ W["qkv"], 3, axis=1))
    s = q @ k.transpose(0, 2, 1) / np.sqrt(d)
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    s = s - slopes(n_heads)[:, None, None] * (i - j)
    s = np.where(j <= i, s, -np.inf)
    y = softmax_(s) @ v
    return y.transpose(1, 0, 2).reshape(T, D) @ W["o"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def norm(x):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)


class JianziModel:
    """词表：左手指法、徽位、右手指法、弦序合成的“减字”。"""

    def __init__(self, n_chars, D=48, layers=2, seed=0):
        r = np.random.default_rng(seed)
        g = lambda *s: r.normal(size=s) / np.sqrt(s[0])
        self.emb = r.normal(size=(n_chars, D))
        self.layers = [dict(qkv=g(D, 3 * D), o=g(D, D), up=g(D, 2 * D), down=g(2 * D, D)) for _ in range(layers)]

    def logits(self, ids):
        x = self.emb[np.asarray(ids)]
        for W in self.layers:
            x = x + alibi_attention(norm(x), W)
            x = x + gelu(norm(x) @ W["up"]) @ W["down"]
        return norm(x) @ self.emb.T

    def continue_score(self, ids, n):
        ids = list(ids)
        for _ in range(n):
            ids.append(int(self.logits(ids)[-1].argmax()))
        return ids


if __name__ == "__main__":
    print(JianziModel(40).continue_score([3, 1, 7], 4))
