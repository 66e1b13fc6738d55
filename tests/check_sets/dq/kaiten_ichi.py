"""回転位置埋め込み (RoPE) をやさしく — 複素数で考える。

ベクトルの成分を二つずつ組にして複素数とみなす: z_i = x[2i] + 1j * x[2i+1]。
位置 m のベクトルは z_i * exp(1j * m * theta_i) に回す。theta_i = 10000^(-2i/d)。
q と k の内積は Re(sum z_q * conj(z_k)) なので、位置の差 m - n だけで決まる。
"""
import numpy as np


def fukuso(x):
    """(..., d) の実数を (..., d/2) の複素数に。隣どうしを組にする。"""
    return x[..., 0::2] + 1j * x[..., 1::2]


def rope_chuui(q, k, v, ichi):
    """RoPE つき因果的 (causal) 注意。

    q, k : (B, L, d)  d は偶数
    v    : (B, L, e)
    ichi : (L,) 各トークンの位置。単調に増える整数。位置が後のトークンは見えない。
    返り値: (B, L, e) = softmax(回した内積 / sqrt(d)) v
    """
    d = q.shape[-1]
    theta = 10000.0 ** (-np.arange(0, d, 2) / d)           # (d/2,)
    kaiten = np.exp(1j * ichi[:, None] * theta)            # (L, d/2)

    zq = fukuso(q) * kaiten
    zk = fukuso(k) * kaiten

    # 実部が、回した実ベクトルの内積に等しい
    ten = np.einsum("bmi,bni->bmn", zq, zk.conj()).real / np.sqrt(d)

    mirai = ichi[None, :] > ichi[:, None]                  # 未来 = True
    ten = np.where(mirai, -np.inf, ten)

    ten = ten - ten.max(axis=-1, keepdims=True)
    omomi = np.exp(ten)
    omomi = omomi / omomi.sum(axis=-1, keepdims=True)
    return omomi @ v


if __name__ == "__main__":
    g = np.random.default_rng(1)
    q, k, v = g.normal(size=(3, 1, 6, 8))
    a = rope_chuui(q, k, v, np.arange(6))
    b = rope_chuui(q, k, v, np.arange(6) + 100)
    print("ずらしても同じ:", np.allclose(a, b))
