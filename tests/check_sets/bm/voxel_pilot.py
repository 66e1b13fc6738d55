"""Drone obstacle avoidance: action queries read voxel tokens (Flax).

Ported from the PyTorch training code; parameters are loaded by name, so the head
order is that of the original: ``n_kv`` key/value heads, each serving a run of
``n_q // n_kv`` *neighbouring* query heads (Llama order).
"""
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp


class Grid(NamedTuple):
    nx: int
    ny: int
    nz: int
    cell: float  # metres


def voxelise(points, grid: Grid):
    """points [n, 3] -> occupancy counts [nx, ny, nz]"""
    idx = jnp.floor(points / grid.cell).astype(jnp.int32)
    idx = idx + jnp.array([grid.nx // 2, grid.ny // 2, grid.nz // 2])
    shape = jnp.array([grid.nx, grid.ny, grid.nz])
    ok = ((idx >= 0) & (idx < shape)).all(-1)
    flat = (idx[:, 0] * grid.ny + idx[:, 1]) * grid.nz + idx[:, 2]
    flat = jnp.where(ok, flat, 0)
    return jnp.zeros(grid.nx * grid.ny * grid.nz).at[flat].add(ok.astype(jnp.float32)).reshape(shape.tolist())


class VoxelReader(nn.Module):
    n_q: int
    n_kv: int
    hd: int

    def setup(self):
        if self.n_q % self.n_kv:
            raise ValueError("n_q must be a multiple of n_kv")
        self.wq = nn.Dense(self.n_q * self.hd, use_bias=False)
        self.wk = nn.Dense(self.n_kv * self.hd, use_bias=False)
        self.wv = nn.Dense(self.n_kv * self.hd, use_bias=False)

    @nn.compact
    def __call__(self, queries, voxels, occupied):
        """queries [b, a, c]; voxels [b, m, c]; occupied [b, m] bool (False: free space, skipped).

        At least one voxel is occupied (the ground).
        """
        b, a, c = queries.shape
        m = voxels.shape[1]
        rep = self.n_q // self.n_kv

        q = self.wq(queries).reshape(b, a, self.n_q, self.hd)
        k = self.wk(voxels).reshape(b, m, self.n_kv, self.hd)
        v = self.wv(voxels).reshape(b, m, self.n_kv, self.hd)
        k = jnp.tile(k, (1, 1, rep, 1))
        v = jnp.tile(v, (1, 1, rep, 1))

        s = jnp.einsum("bahd,bmhd->bham", q, k) / self.hd ** 0.5
        s = jnp.where(occupied[:, None, None, :], s, jnp.finfo(s.dtype).min)
        w = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bham,bmhd->bahd", w, v).reshape(b, a, -1)
        return nn.Dense(c, use_bias=False, name="wo")(y)


class Pilot(nn.Module):
    n_actions: int = 8
    width: int = 32

    @nn.compact
    def __call__(self, counts):
        """counts [b, nx, ny, nz] -> velocity command [b, 3] in metres per second"""
        b, nx, ny, nz = counts.shape
        occ = counts.reshape(b, -1) > 0
        pos = jnp.stack(jnp.meshgrid(*[jnp.linspace(-1, 1, s) for s in (nx, ny, nz)], indexing="ij"), -1)
        tok = jnp.concatenate([jnp.log1p(counts.reshape(b, -1, 1)),
                               jnp.broadcast_to(pos.reshape(1, -1, 3), (b, nx * ny * nz, 3))], -1)
        tok = nn.Dense(self.width)(tok)
        act = self.param("act", nn.initializers.normal(0.02), (self.n_actions, self.width))
        x = jnp.broadcast_to(act, (b,) + act.shape)
        for _ in range(2):
            x = x + VoxelReader(n_q=4, n_kv=2, hd=8)(nn.LayerNorm()(x), tok, occ)
            x = x + nn.Dense(self.width)(nn.silu(nn.Dense(2 * self.width)(nn.LayerNorm()(x))))
        return 5.0 * jnp.tanh(nn.Dense(3)(x.mean(1)))


if __name__ == "__main__":
    g = Grid(6, 6, 4, 0.5)
    pts = jax.random.uniform(jax.random.key(0), (200, 3), minval=-1.4, maxval=1.4)
    occ = voxelise(pts, g)[None]
    net = Pilot()
    print(net.apply(net.init(jax.random.key(1), occ), occ))
