"""Session encoder for the click model, functional: state dict in, tensors out."""
import torch
import torch.nn.functional as F


def new_params(d=32, heads=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=g) * s[0] ** -0.5
    return {
        "heads": heads,
        "q.w": r(d, d), "k.w": r(d, d), "v.w": r(d, d), "o.w": r(d, d),
        "ff1.w": r(d, 4 * d), "ff2.w": r(4 * d, d),
    }


def session_attention(P, x, clicked):
    """
    x        B, N, d   events
    clicked  B, N      bool, only clicked events may be attended to

    Plain multi-head scaled dot-product attention restricted to the clicks.
    """
    B, N, d = x.shape
    h = P["heads"]
    e = d // h

    q, k, v = (
        (x @ P[name]).view(B, N, h, e).transpose(1, 2)
        for name in ("q.w", "k.w", "v.w")
    )
    s = torch.einsum("bhqe,bhke->bhqk", q, k) / e
    s = s + clicked.view(B, 1, 1, N)
    w = F.softmax(s, dim=-1)
    y = torch.einsum("bhqk,bhke->bqhe", w, v)
    return y.reshape(B, N, d) @ P["o.w"]


def session_layer(P, x, clicked):
    d = x.shape[-1]
    x = x + session_attention(P, F.layer_norm(x, (d,)), clicked)
    return x + F.relu(F.layer_norm(x, (d,)) @ P["ff1.w"]) @ P["ff2.w"]


def next_item_scores(P, table, items, clicked):
    x = session_layer(P, F.embedding(items, table), clicked)
    return x[:, -1] @ table.t()
