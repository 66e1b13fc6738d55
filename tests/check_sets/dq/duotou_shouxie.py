"""手写多头注意力（第八讲课后练习参考答案，纯 NumPy）。

题目：把 D 维向量切成 H 个头，每个头 d = D / H 维，第 h 个头使用第 h*d 到
(h+1)*d - 1 个通道；分别做缩放点积注意力，再按原来的顺序拼回去。
"""
import numpy as np


def softmax(s):
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def fen_tou(x, H):
    """(B, L, D) -> (B, H, L, d)"""
    B, L, D = x.shape
    return x.reshape(B, H, L, D // H)


def he_bing(x):
    """(B, H, L, d) -> (B, L, D)"""
    B, H, L, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, L, H * d)


def duotou_zhuyili(x, Wq, Wk, Wv, Wo, H):
    """多头自注意力。

    x              : (B, L, D)
    Wq, Wk, Wv, Wo : (D, D)，用法 x @ W
    H              : 头数，能整除 D
    返回           : (B, L, D)。每个头: softmax(q k^T / sqrt(d)) v，d 是每个头的维度
    """
    D = x.shape[-1]

    # 第一步：线性变换，然后分头
    q = fen_tou(x @ Wq, H)
    k = fen_tou(x @ Wk, H)
    v = fen_tou(x @ Wv, H)

    # 第二步：点积，除以根号维度
    fenshu = q @ k.swapaxes(-1, -2) / np.sqrt(D)

    # 第三步：归一化
    quanzhong = softmax(fenshu)

    # 第四步：加权求和、合并、输出变换
    return he_bing(quanzhong @ v) @ Wo


if __name__ == "__main__":
    rng = np.random.default_rng(42)
    W = rng.normal(size=(4, 8, 8))
    print(duotou_zhuyili(rng.normal(size=(2, 6, 8)), *W, 2).shape)
