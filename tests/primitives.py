"""Every primitive that is done in NumPy against what JAX gives: run by test_recorder.py in a process of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from overt.recorder.traced import evaluate


def arithmetic(x, y):
    return [
        x + y,
        x - y,
        x * y,
        x / y,
        x % y,
        -x,
        jnp.abs(x),
        jnp.sign(x),
        jnp.exp(x),
        jnp.exp2(x),
        jnp.log(y),
        jnp.log1p(y),
        jnp.expm1(x),
        jnp.tanh(x),
        jnp.sin(x),
        jnp.cos(x),
        jnp.sqrt(y),
        lax.rsqrt(y),
        jax.nn.sigmoid(x),
        jax.nn.gelu(x),
        jax.nn.silu(x),
        jnp.floor(x),
        jnp.ceil(x),
        jnp.isfinite(x / 0),
        x**2,
        x**3,
        1 / x,
        x**-2,
        y**x,
        jnp.arctan2(x, y),
        jnp.maximum(x, y),
        jnp.clip(x, -0.5, 0.5),
        x < y,
        (x > 0) & (y > 1) | ~(x < 0),
        jnp.where(x > 0, x, y),
        jnp.logaddexp(x, y),
        jax.nn.relu(x),
        jnp.round(x),
        jax.scipy.special.erf(x),
    ]


def shapes(x, y):
    return [
        x.T,
        x.reshape(-1),
        x.reshape(2, 2, -1),
        x[:, 1:4:2],
        x[::-1],
        x[1],
        x[..., -1],
        jnp.concatenate([x, y], 1),
        jnp.stack([x, y]),
        jnp.pad(x, ((1, 2), (0, 3)), constant_values=7.0),
        lax.pad(x, 0.0, ((1, 1, 2), (0, 0, 1))),
        jnp.broadcast_to(x[:, None], (4, 3, 6)),
        x.sum(),
        x.sum(0),
        x.max((0, 1)),
        x.min(1),
        x.prod(1),
        x.mean(-1, keepdims=True),
        x.var(),
        (x > 0).all(0),
        (x > 0).any(1),
        jnp.argmax(x, 1),
        jnp.argmin(x, 0),
        jnp.cumsum(x, 1),
        lax.cumsum(x, 0, reverse=True),
        lax.cummax(x, 1),
        jnp.cumprod(x, 0),
        jnp.tril(x),
        jnp.eye(4)[jnp.argmax(x, 0)],
        jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
        jnp.sort(x, 1),
        lax.top_k(x, 2),
        jnp.roll(x, 1, 0),
        jnp.repeat(x, 2, 1),
        x.at[1].set(0.0),
        x.at[:, 2].add(1.0),
        jnp.linspace(0, 1, 5),
        jnp.arange(5)[::2],
        jax.nn.one_hot(jnp.array([1, 3]), 4),
    ]


def products(x, y):
    z = x.reshape(2, 2, 2, 3)
    return [
        x @ y.T,
        x.T @ y,
        jnp.einsum("ij,kj->ki", x, y),
        jnp.einsum("abcd,aecd->abe", z, z),
        jnp.einsum("abcd,bcde->ae", z, z.transpose(1, 2, 3, 0)),
        jnp.einsum("bhid,bhjd->bhij", z, z),
        jnp.tensordot(x, y, ((0, 1), (0, 1))),
        jnp.outer(x[0], y[0]),
        jnp.dot(x[0], y[0]),
    ]


def control(x, y):
    forth = lax.scan(lambda c, r: (c + r[0].sum(), c * r[1]), 0.5, (x, y))
    back = lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], y, reverse=True)
    empty = lax.scan(lambda c, r: (c + r, c), x[0], x[:0])
    turn = (
        lax.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, x),
        lax.switch(jnp.int32(2), [jnp.sin, jnp.cos, jnp.tan], x),
    )
    loops = (
        lax.fori_loop(0, 3, lambda i, c: c + x[i], x[0]),
        lax.while_loop(lambda c: c.sum() < 50, lambda c: c + jnp.abs(x), jnp.abs(x)),
        lax.map(lambda r: r * 2, x),
    )
    at = (
        lax.dynamic_slice(x, (5, 1), (2, 3)),
        lax.dynamic_update_slice(x, y[:2, :2], (-1, 5)),
        lax.dynamic_index_in_dim(x, 2),
    )
    return [
        forth,
        back,
        empty,
        turn,
        loops,
        at,
        jax.vmap(lambda r: jax.nn.softmax(r))(x),
        jax.checkpoint(jnp.sin)(x),
        jax.grad(lambda a: (jnp.tanh(a) @ y.T).sum())(x),
    ]


def halves(x, y):
    a, b = x.astype(jnp.bfloat16), y.astype(jnp.float16)
    return [a + 1, a.sum(1), jnp.exp(a), jax.nn.softmax(b, -1), (a @ a.T), (b @ b.T), b.mean(), jnp.cumsum(a, 0)]


def whole(x, y):
    i = (x * 10).astype(int)
    return [
        i // 3,
        i % 3,
        i * i,
        -i,
        i >> 1,
        i.astype(jnp.uint32) >> 3,
        jnp.bitwise_xor(i, 5),
        i.sum(),
        i.max(0),
        i.astype(bool),
        x.astype(jnp.int8),
        lax.div(i, jnp.full_like(i, -3)),
        lax.rem(i, jnp.full_like(i, 3)),
        i**2,
    ]


def drawn(key):
    a, b = jax.random.split(key)
    several = jax.vmap(lambda one: jax.random.normal(one, (500,)))(jax.random.split(a, 4))
    return (
        jax.random.normal(a, (300, 400)), jax.random.normal(b, (300, 400)), several,
        jax.random.bernoulli(jax.random.fold_in(b, 3), 0.3, (10_000,)), jax.random.randint(b, (1000,), 2, 9),
        jax.random.permutation(a, 10), jax.random.truncated_normal(a, -2, 2, (1000,)),
        jax.random.normal(jax.random.wrap_key_data(jax.random.key_data(jax.random.key(1))), (3,)),
    )  # fmt: skip


def main() -> None:
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(some, jnp.float32) for some in (rng.normal(size=(4, 6)), rng.uniform(1, 3, (4, 6))))
    for function in (arithmetic, shapes, products, control, halves, whole):
        got, want = evaluate(jax.make_jaxpr(function)(x, y), [x, y]), jax.tree_util.tree_leaves(function(x, y))
        for number, (one, two) in enumerate(zip(got, want, strict=True)):
            assert (one.shape, one.dtype) == (two.shape, two.dtype), (function, number, one, two)
            off = 2e-2 if one.dtype.itemsize == 2 else 2e-5
            some = (np.asarray(z, float) for z in (one, two))
            np.testing.assert_allclose(*some, rtol=off, atol=off, err_msg=f"{function.__name__} {number}")
    for key in (jax.random.PRNGKey(0), jax.random.key(1)):
        a, b, several, chances, whole_, order, cut, _ = map(np.asarray, evaluate(jax.make_jaxpr(drawn)(key), [key]))
        np.testing.assert_allclose([a.std(), b.std(), a.mean(), chances.mean()], [1, 1, 0, 0.3], atol=0.02)
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02
        assert np.abs(np.corrcoef(several) - np.eye(4)).max() < 0.2
        assert set(whole_.tolist()) == set(range(2, 9))
        assert sorted(order.tolist()) == list(range(10))
        assert 1.9 < np.abs(cut).max() <= 2


if __name__ == "__main__":
    main()
