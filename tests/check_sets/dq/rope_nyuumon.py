"""RoPE 入門: 回転でトークンの位置を表す (PyTorch, 第3回)。

前半・後半方式 (LLaMA の Hugging Face 実装と同じ)。成分 i と成分 i + d/2 を組にして、
平面上で角度 m * theta_i だけ回す。theta_i = base^(-2i/d), i = 0 .. d/2 - 1。
"""
import torch


def kakudo(L, d, base=10000.0):
    """位置ごとの角度の表 (L, d)。"""
    theta = base ** (-torch.arange(0, d, 2).float() / d)      # (d/2,)
    m = torch.arange(L).float()
    hyou = torch.outer(m, theta)                              # (L, d/2)
    return hyou.repeat_interleave(2, dim=-1)


def hanten(x):
    """(x1, x2) -> (-x2, x1)。x1 は前半、x2 は後半。"""
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def mawasu(x, hyou):
    return x * hyou.cos() + hanten(x) * hyou.sin()


def rope_attention(q, k, v):
    """RoPE つきの双方向注意。

    q, k, v : (B, H, L, d)、d は 4 以上の偶数、位置は 0 .. L-1
    返り値  : (B, H, L, d) = softmax(回した q・回した k / sqrt(d)) v
    回したあとの内積は二つの位置の差だけに依存する。回転なので長さは変わらない。
    """
    L, d = q.shape[-2:]
    hyou = kakudo(L, d)
    q = mawasu(q, hyou)
    k = mawasu(k, hyou)
    score = q @ k.transpose(-2, -1) / d ** 0.5
    omomi = torch.softmax(score, dim=-1)
    return omomi @ v


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    print(rope_attention(q, k, v).shape)
