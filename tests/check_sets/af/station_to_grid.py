"""Interpolating weather stations to a grid with learned cross attention (JAX).

grid points ask (query), stations answer (key/value).  Interpolation property: if all stations report the
same value, every grid point gets that value.
"""
import jax
import jax.numpy as jnp


def dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}


def linear(p, x):
    return x @ p["w"] + p["b"]


def fourier(coords, bands=4):
    """coords [..., 2] in [0, 1] -> [..., 4 * bands]"""
    f = 2.0 ** jnp.arange(bands) * jnp.pi
    a = coords[..., None] * f
    return jnp.concatenate([jnp.sin(a), jnp.cos(a)], -1).reshape(*coords.shape[:-1], -1)


def init_params(key, width=32, heads=4, bands=4):
    k = jax.random.split(key, 3)
    return {
        "q": dense(k[0], 4 * bands, width),
        "k": dense(k[1], 4 * bands, width),
        "logits_gain": jnp.ones((heads,)),
        "mix": jnp.full((heads,), 1.0 / heads),
    }


def split_heads(x, heads):
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def interpolation_weights(params, grid_xy, station_xy):
    """[B, G, 2], [B, S, 2] -> weights of every station for every grid point, per head."""
    heads = params["logits_gain"].shape[0]
    q = split_heads(linear(params["q"], fourier(grid_xy)), heads)
    k = split_heads(linear(params["k"], fourier(station_xy)), heads)
    logits = jnp.einsum("bgha,bsha->bhsg", q, k) / jnp.sqrt(q.shape[-1])
    logits = logits * params["logits_gain"][:, None, None]
    return jax.nn.softmax(logits, axis=-1)


def interpolate(params, grid_xy, station_xy, values):
    """values [B, S, C] -> [B, G, C]"""
    w = interpolation_weights(params, grid_xy, station_xy)
    per_head = jnp.einsum("bhsg,bsc->bhgc", w, values)
    return jnp.einsum("bhgc,h->bgc", per_head, params["mix"])


def loss(params, batch):
    pred = interpolate(params, batch["grid"], batch["stations"], batch["values"])
    return jnp.mean((pred - batch["truth"]) ** 2)


@jax.jit
def train_step(params, batch, lr=1e-2):
    value, grads = jax.value_and_grad(loss)(params, batch)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads), value
