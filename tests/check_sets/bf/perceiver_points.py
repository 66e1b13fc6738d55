"""LiDAR perceiver: a few latents read a large, padded point cloud (JAX, robotics)."""
import jax
import jax.numpy as jnp
import numpy as np

CHUNK = 8


def pad_cloud(points, size):
    out = np.zeros((size, points.shape[1]), np.float32)
    out[: len(points)] = points
    return out, np.arange(size) < len(points)


def linear(key, i, o):
    return jax.random.normal(key, (i, o)) / jnp.sqrt(i)


def init(key, point_dim=4, latents=6, width=16, heads=2):
    k = jax.random.split(key, 5)
    return dict(lat=jax.random.normal(k[0], (latents, width)), q=linear(k[1], width, width),
                k=linear(k[2], point_dim, width), v=linear(k[3], point_dim, width),
                o=linear(k[4], width, width))


def read_cloud(params, points, valid, heads=2):
    """points (N, point_dim), N a multiple of CHUNK; valid (N,) bool, True = real point.

    The cloud is scanned chunk by chunk, numerator and denominator are carried
    along. A cloud without any valid point reads as zero.
    """
    lat = params["lat"]
    L, W = lat.shape
    d = W // heads
    q = (lat @ params["q"]).reshape(L, heads, d) * d ** -0.5
    pts = points.reshape(-1, CHUNK, points.shape[-1])
    val = valid.reshape(-1, CHUNK)

    def body(carry, inp):
        m, den, num = carry
        p, ok = inp
        k = (p @ params["k"]).reshape(CHUNK, heads, d)
        v = (p @ params["v"]).reshape(CHUNK, heads, d)
        s = jnp.einsum("lhd,chd->lhc", q, k)
        s = jnp.where(ok, s, -1e30)
        m2 = jnp.maximum(m, s.max(-1))
        e = jnp.where(ok, jnp.exp(s - m2[..., None]), 0.0)
        f = jnp.exp(m - m2)
        return (m2, den * f + e.sum(-1), num * f[..., None] + jnp.einsum("lhc,chd->lhd", e, v)), None

    start = (jnp.full((L, heads), -1e30), jnp.zeros((L, heads)), jnp.zeros((L, heads, d)))
    (_, den, num), _ = jax.lax.scan(body, start, (pts, val))
    out = jnp.where(den[..., None] > 0, num / jnp.maximum(den, 1e-30)[..., None], 0.0)
    return out.reshape(L, W) @ params["o"]


read_batch = jax.jit(jax.vmap(read_cloud, in_axes=(None, 0, 0)))

if __name__ == "__main__":
    pr = init(jax.random.PRNGKey(0))
    c, ok = pad_cloud(np.random.randn(13, 4), 24)
    print(read_cloud(pr, c, ok).shape)
