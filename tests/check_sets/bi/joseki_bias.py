"""囲碁の定石予測ネットワーク(Flax)。

盤面の各点が全ての点を見る。キーとバリューは全ヘッドで共有(マルチクエリ)。
相対位置バイアス:行差・列差(-18..18)ごとにヘッド別の学習値をロジットに加える。
盤外の点(小さい盤を 19 路に埋めたとき)は on_board=False とし、誰からも見えない。
"""
import flax.linen as nn
import jax.numpy as jnp
import numpy as np


def relative_index(size):
    """点 i から見た点 j の相対位置の番号 (N, N)"""
    yx = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), -1).reshape(-1, 2)
    diff = yx[None, :, :] - yx[:, None, :] + size - 1
    return diff[..., 0] * (2 * size - 1) + diff[..., 1]


class BoardAttention(nn.Module):
    size: int
    heads: int
    head_dim: int

    @nn.compact
    def __call__(self, x, on_board):
        """x: (B, N, C), on_board: (B, N) bool, N = size * size"""
        B, N, C = x.shape
        q = nn.DenseGeneral((self.heads, self.head_dim), use_bias=False, name="query")(x)
        k = nn.Dense(self.head_dim, use_bias=False, name="key")(x)
        v = nn.Dense(self.head_dim, use_bias=False, name="value")(x)
        table = self.param("rel", nn.initializers.normal(0.02),
                           ((2 * self.size - 1) ** 2, self.heads))
        bias = jnp.moveaxis(table[relative_index(self.size)], -1, 0)

        s = jnp.einsum("bnhd,bmd->bhnm", q * self.head_dim ** -0.5, k) + bias[None]
        s = jnp.where(on_board[:, None, None, :], s, jnp.finfo(s.dtype).min)
        p = nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
        y = jnp.einsum("bhnm,bmd->bnhd", p, v)
        return nn.DenseGeneral(C, axis=(-2, -1), name="out")(y)


class Joseki(nn.Module):
    size: int = 19
    width: int = 64
    heads: int = 4
    depth: int = 4

    @nn.compact
    def __call__(self, stones, on_board):
        """stones: (B, N, 3) 黒・白・空 -> 次の一手の logits (B, N)"""
        h = nn.Dense(self.width)(stones)
        for _ in range(self.depth):
            h = h + BoardAttention(self.size, self.heads, self.width // self.heads)(nn.LayerNorm()(h), on_board)
            h = h + nn.Dense(self.width)(nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(h))))
        logits = nn.Dense(1)(nn.LayerNorm()(h))[..., 0]
        legal = on_board & (stones[..., 2] > 0.5)
        return jnp.where(legal, logits, -1e9)


def sgf(point, size=19):
    y, x = divmod(int(point), size)
    return "abcdefghijklmnopqrs"[x] + "abcdefghijklmnopqrs"[y]
