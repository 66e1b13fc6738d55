"""地铁到站时间预测（纯 JAX 函数式写法）

各站客流为 token，分组查询注意力 (GQA)：相邻的 n_q // n_kv 个查询头共用一个
键值头，即第 h 个查询头使用第 h // (n_q // n_kv) 个键值头（与 Llama 权重一致）。
"""
import dataclasses
import jax
import jax.numpy as jnp

早高峰 = (7, 9)
晚高峰 = (17, 19)


@dataclasses.dataclass(frozen=True)
class 参数:
    宽: int = 48
    查询头: int = 6
    键值头: int = 2
    层: int = 2

    @property
    def 头维(self):
        return self.宽 // self.查询头


def 初始化(key, c: 参数):
    ks = jax.random.split(key, 4)
    w = c.宽 ** -0.5
    return {
        "wq": jax.random.normal(ks[0], (c.宽, c.查询头 * c.头维)) * w,
        "wk": jax.random.normal(ks[1], (c.宽, c.键值头 * c.头维)) * w,
        "wv": jax.random.normal(ks[2], (c.宽, c.键值头 * c.头维)) * w,
        "wo": jax.random.normal(ks[3], (c.查询头 * c.头维, c.宽)) * w,
    }


def station_attention(p, x, open_mask, c: 参数 = 参数()):
    """
    x:         [B, N, 宽]
    open_mask: [B, N] bool，True = 车站开放（可以被关注），至少一站开放
    返回       [B, N, 宽]
    """
    B, N, _ = x.shape
    q = (x @ p["wq"]).reshape(B, N, c.查询头, c.头维)
    k = (x @ p["wk"]).reshape(B, N, c.键值头, c.头维)
    v = (x @ p["wv"]).reshape(B, N, c.键值头, c.头维)
    倍数 = c.查询头 // c.键值头
    k = jnp.tile(k, (1, 1, 倍数, 1))
    v = jnp.tile(v, (1, 1, 倍数, 1))
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(c.头维)
    s = jnp.where(open_mask[:, None, None, :], s, jnp.finfo(s.dtype).min)
    a = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(B, N, -1)
    return y @ p["wo"]


def 归一(x, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def 模型(层参数, 输入投影, 输出投影, 客流, open_mask, c: 参数 = 参数()):
    h = 客流 @ 输入投影
    for p in 层参数:
        h = h + station_attention(p, 归一(h), open_mask, c)
    return jax.nn.softplus(h @ 输出投影)[..., 0]     # 秒


def 是高峰(小时):
    return any(a <= 小时 < b for a, b in (早高峰, 晚高峰))


if __name__ == "__main__":
    c = 参数()
    key = jax.random.PRNGKey(0)
    ps = [初始化(k, c) for k in jax.random.split(key, c.层)]
    x = jax.random.normal(key, (2, 9, 5))
    print(模型(ps, jnp.ones((5, c.宽)), jnp.ones((c.宽, 1)), x, jnp.ones((2, 9), bool)).shape)
