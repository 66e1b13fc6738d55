"""第七讲 附录：用 einsum 写多头注意力（不需要 reshape，也不需要 transpose）。

每个头都有自己的一组投影矩阵，放在第 0 维。最后的输出投影也按头切开，
各个头的结果相加，与“先拼接再乘大矩阵”完全等价。
"""
import numpy as np


def duotou(x, params, zhenci):
    """多头自注意力。

    x      : (B, L, D)
    params : dict, Wq / Wk / Wv 形状 (H, D, d), Wo 形状 (H, d, D)
    zhenci : (B, L), 1 = 真词 (可以被看), 0 = 填充 (不能被看)；每句至少一个 1
    返回   : (B, L, D) = concat_h softmax(q_h k_h^T / sqrt(d)) v_h 乘以 Wo
    """
    d = params["Wq"].shape[-1]

    # 1. 投影。b 批, l 位置, c 通道, h 头, e 头内维度
    q = np.einsum("blc,hce->bhle", x, params["Wq"])
    k = np.einsum("blc,hce->bhle", x, params["Wk"])
    v = np.einsum("blc,hce->bhle", x, params["Wv"])

    # 2. 打分并缩放
    score = np.einsum("bhqe,bhke->hbqk", q, k) / d ** 0.5

    # 3. 填充位置给一个极小的分数
    score = np.where(zhenci[None, :, None, :] == 1, score, -1e30)

    # 4. 对“被看的词”做 softmax
    score = score - score.max(-1, keepdims=True)
    p = np.exp(score)
    p = p / p.sum(-1, keepdims=True)

    # 5. 加权求和，然后各头投影回 D 维再相加
    head = np.einsum("hbqk,bhke->bhqe", p, v)
    return np.einsum("bhqe,hec->bqc", head, params["Wo"])


if __name__ == "__main__":
    g = np.random.default_rng(7)
    P = {n: g.normal(size=(2, 8, 3)) for n in ("Wq", "Wk", "Wv")}
    P["Wo"] = g.normal(size=(2, 3, 8))
    print(duotou(g.normal(size=(2, 5, 8)), P, np.ones((2, 5))).shape)
