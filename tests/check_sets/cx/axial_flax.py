import flax.linen as nn
import jax
import jax.numpy as jnp


class Axial(nn.Module):
    """Weather surrogate: attention along latitude plus attention along longitude.

    grid [B, Y, X, C] -> [B, Y, X, C]. Each cell attends to its own column (all Y) and to its own
    row (all X) with separate weights, and the two results are added.
    ocean: optional bool [Y, X]; land cells are not attended to. A cell whose whole line is
    land receives nothing from this line.
    """
    heads: int
    size: int

    @nn.compact
    def __call__(self, grid, ocean=None):
        B, Y, X, C = grid.shape
        if ocean is None:
            ocean = jnp.ones((Y, X), bool)
        by_row = self.line(grid, ocean, "row")
        by_col = self.line(grid.swapaxes(1, 2), ocean.T, "col").swapaxes(1, 2)
        return by_row + by_col

    def line(self, z, ok, name):
        shape = (self.heads, self.size)
        q = nn.DenseGeneral(shape, name=name + "_q")(z)
        k = nn.DenseGeneral(shape, name=name + "_k")(z)
        v = nn.DenseGeneral(shape, name=name + "_v")(z)
        s = jnp.einsum("bihd,bjhd->bhij", *map(self.fold, (q, k))) / jnp.sqrt(self.size)
        lines = ok[None].repeat(z.shape[0], 0).reshape(-1, ok.shape[-1])[:, None, None, :]
        s = jnp.where(lines, s, jnp.finfo(s.dtype).min)
        p = jnp.where(lines, jax.nn.softmax(s, axis=-1), 0.0)
        y = jnp.einsum("bhij,bjhd->bihd", p, self.fold(v))
        y = y.reshape(z.shape[:3] + shape)
        return nn.DenseGeneral(z.shape[-1], axis=(-2, -1), use_bias=False, name=name + "_o")(y)

    @staticmethod
    def fold(t):
        return t.reshape((-1,) + t.shape[2:])
