"""Cross-sectional attention between stocks, JAX.

On each trading day every stock looks at the stocks that can be traded on
that day.  There is no attention through time here.

panel    (T, N, F)     characteristics, T days, N stocks
tradable (T, N) bool   True = listed and not suspended on that day
params   from init()

returns  (T, N) expected excess returns; 0 for stocks that are not tradable.
A day without any tradable stock is all zeros.
"""
import jax
import jax.numpy as jnp


def init(key, f, heads=2, d=8):
    ks = jax.random.split(key, 5)
    g = lambda k, *s: jax.random.normal(k, s) / jnp.sqrt(s[0])
    return dict(wq=g(ks[0], f, heads, d), wk=g(ks[1], f, heads, d), wv=g(ks[2], f, heads, d),
                wo=g(ks[3], heads * d, f).reshape(heads, d, f), beta=g(ks[4], f))


def one_day(params, x, ok):
    """x (N, F), ok (N,)"""
    q = jnp.tensordot(x, params["wq"], 1)          # N H D
    k = jnp.tensordot(x, params["wk"], 1)
    v = jnp.tensordot(x, params["wv"], 1)
    s = jnp.einsum("nhd,mhd->hnm", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(ok, s, -1e30)
    p = jnp.where(ok, jax.nn.softmax(s, axis=-1), 0.0)
    y = jnp.einsum("hnm,mhd,hdf->nf", p, v, params["wo"])
    return jnp.where(ok, (x + y) @ params["beta"], 0.0)


@jax.jit
def expected_returns(params, panel, tradable):
    return jax.vmap(one_day, in_axes=(None, 0, 0))(params, panel, tradable)
