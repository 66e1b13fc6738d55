"""Laparoscopic suturing: needle, thread points, tissue edge and both grippers are rigid
frames (R, t) in camera coordinates. Message passing must not care where the camera is, so
the attention is the invariant point kind (Jumper et al. 2021, Alg. 22):

    a_ij = softmax_j( w_L * ( q_i.k_j / sqrt(c) + b_ij - gamma_h w_C / 2 * sum_p |T_i q_ip - T_j k_jp|^2 ) )

with w_L = sqrt(1/3) and w_C = sqrt(2 / (9 P)). Frames that are out of view are not read.
"""
import jax
import jax.numpy as jnp
from jax import nn, random

H, C, P, S, Z = 3, 6, 4, 16, 5      # heads, channels, points, single width, pair width


def to_camera(R, t, x):
    """x [N, ..., 3] in local frames -> camera."""
    y = jnp.einsum("nij,n...j->n...i", R, x)
    return y + t.reshape(t.shape[:1] + (1,) * (x.ndim - 2) + (3,))


def to_local(R, t, y):
    y = y - t.reshape(t.shape[:1] + (1,) * (y.ndim - 2) + (3,))
    return jnp.einsum("nji,n...j->n...i", R, y)


def init(key):
    shapes = dict(q=(S, H, C), k=(S, H, C), v=(S, H, C), qp=(S, H, P, 3), kp=(S, H, P, 3), vp=(S, H, P, 3), b=(Z, H),
                  o=(H * (C + P * 4 + Z), S))
    keys = random.split(key, len(shapes))
    w = {n: random.normal(k, s) * s[0] ** -0.5 for k, (n, s) in zip(keys, shapes.items())}
    w["gamma"] = jnp.full((H,), 0.541324854612918)      # softplus -> 1
    return w


def frame_attention(w, single, pair, R, t, in_view):
    """single [N, S], pair [N, N, Z], R [N, 3, 3], t [N, 3], in_view [N] bool (one at least)."""
    n = single.shape[0]
    q, k, v = (jnp.einsum("ns,shc->nhc", single, w[m]) for m in ("q", "k", "v"))
    qp, kp, vp = (to_camera(R, t, jnp.einsum("ns,shpx->nhpx", single, w[m])) for m in ("qp", "kp", "vp"))

    content = jnp.einsum("ihc,jhc->hij", q, k) * C ** -0.5
    bias = jnp.einsum("ijz,zh->hij", pair, w["b"])
    gap = ((qp[:, None] - kp[None, :]) ** 2).sum((-1, -2))                    # [i, j, h]
    w_c = (2.0 / (9.0 * P)) ** 0.5
    points = nn.softplus(w["gamma"])[:, None, None] * w_c / 2 * gap.transpose(2, 0, 1)
    logits = (1.0 / 3.0) ** 0.5 * (content + bias - points)
    a = nn.softmax(jnp.where(in_view[None, None, :], logits, -jnp.inf), axis=-1)

    o = jnp.einsum("hij,jhc->ihc", a, v)
    op = to_local(R, t, jnp.einsum("hij,jhpx->ihpx", a, vp))
    oz = jnp.einsum("hij,ijz->ihz", a, pair)
    length = jnp.sqrt((op ** 2).sum(-1) + 1e-8)
    feats = [f.reshape(n, -1) for f in (o, op, length, oz)]
    return jnp.concatenate(feats, -1) @ w["o"]


def small_turn(w3):
    """Quaternion (1, b, c, d) -> rotation, as the update of a frame."""
    q = jnp.concatenate([jnp.ones_like(w3[..., :1]), w3], -1)
    a, b, c, d = jnp.moveaxis(q / jnp.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = [[a*a + b*b - c*c - d*d, 2*(b*c - a*d), 2*(b*d + a*c)],
            [2*(b*c + a*d), a*a - b*b + c*c - d*d, 2*(c*d - a*b)],
            [2*(b*d - a*c), 2*(c*d + a*b), a*a - b*b - c*c + d*d]]
    return jnp.stack([jnp.stack(r, -1) for r in rows], -2)


def refine(w, head, single, pair, R, t, in_view, rounds=3):
    for _ in range(rounds):
        single = single + frame_attention(w, single, pair, R, t, in_view)
        step = single @ head
        t = t + jnp.einsum("nij,nj->ni", R, step[:, 3:])
        R = R @ small_turn(step[:, :3])
    return R, t


if __name__ == "__main__":
    ks = random.split(random.PRNGKey(0), 5)
    R, t = refine(init(ks[0]), random.normal(ks[1], (S, 6)) * 0.05, random.normal(ks[2], (7, S)),
                  random.normal(ks[3], (7, 7, Z)), small_turn(random.normal(ks[4], (7, 3))), jnp.zeros((7, 3)), jnp.ones(7, bool))
    print(R.shape, t[0])
