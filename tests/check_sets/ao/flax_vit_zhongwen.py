"""用 Flax 从零写 ViT(花卉分类作业)。

图像布局: [批, 高, 宽, 通道]。
"""
import jax
import jax.numpy as jnp
import flax.linen as nn


class TuKuai(nn.Module):
    """切块并投影"""
    kuai: int
    weidu: int

    @nn.compact
    def __call__(self, tu):
        x = nn.Conv(self.weidu, (self.kuai, self.kuai), strides=(self.kuai, self.kuai),
                    padding="VALID", name="touying")(tu)
        b, g, k, c = x.shape
        return x.reshape(b, g * k, c)


class DuoTouZhuYi(nn.Module):
    """多头自注意力"""
    toushu: int

    @nn.compact
    def __call__(self, x):
        weidu = x.shape[-1]
        mei_tou = weidu // self.toushu
        chushi = nn.initializers.xavier_uniform()
        q = nn.DenseGeneral((self.toushu, mei_tou), kernel_init=chushi, name="q")(x)
        k = nn.DenseGeneral((self.toushu, mei_tou), kernel_init=chushi, name="k")(x)
        v = nn.DenseGeneral((self.toushu, mei_tou), kernel_init=chushi, name="v")(x)
        fenshu = jnp.einsum("bqhd,bkhd->bhqk", q / jnp.sqrt(mei_tou), k)
        quanzhong = jax.nn.softmax(fenshu, axis=-1)
        he = jnp.einsum("bhqk,bkhd->bqhd", quanzhong, v)
        return nn.DenseGeneral(weidu, axis=(-2, -1), name="chu")(he)


class BianMaKuai(nn.Module):
    toushu: int
    yincang: int
    diuqi: float = 0.1

    @nn.compact
    def __call__(self, x, xunlian: bool = False):
        y = nn.LayerNorm()(x)
        y = DuoTouZhuYi(self.toushu)(y)
        x = x + nn.Dropout(self.diuqi, deterministic=not xunlian)(y)
        y = nn.LayerNorm()(x)
        y = nn.gelu(nn.Dense(self.yincang)(y))
        y = nn.Dense(x.shape[-1])(y)
        return x + nn.Dropout(self.diuqi, deterministic=not xunlian)(y)


class ViT(nn.Module):
    leibie: int
    kuai: int = 8
    weidu: int = 96
    toushu: int = 4
    cengshu: int = 4

    @nn.compact
    def __call__(self, tu, xunlian: bool = False):
        x = TuKuai(self.kuai, self.weidu)(tu)
        b, n, c = x.shape
        cls = self.param("cls", nn.initializers.zeros, (1, 1, c))
        x = jnp.concatenate([jnp.tile(cls, (b, 1, 1)), x], axis=1)
        x = x + self.param("weizhi", nn.initializers.normal(0.02), (1, n + 1, c))
        for _ in range(self.cengshu):
            x = BianMaKuai(self.toushu, 4 * self.weidu)(x, xunlian)
        return nn.Dense(self.leibie)(nn.LayerNorm()(x)[:, 0])


def sunshi(canshu, moxing, tu, biaoqian, key):
    logits = moxing.apply({"params": canshu}, tu, xunlian=True, rngs={"dropout": key})
    logp = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logp, biaoqian[:, None], axis=1).mean()


def xunlian_bu(canshu, moxing, tu, biaoqian, key, lr=1e-3):
    l, g = jax.value_and_grad(sunshi)(canshu, moxing, tu, biaoqian, key)
    return jax.tree_util.tree_map(lambda p, d: p - lr * d, canshu, g), l
