"""Recordings of attention whose axes lie otherwise than (B, H, T, D), or that shares what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import overt  # noqa: E402
from overt.torch.record import call as calls  # noqa: E402

SDPA = torch.nn.functional.scaled_dot_product_attention
B, T, H, D = 2, 6, 3, 4


class Attends(torch.nn.Module):
    """Queries, keys and values (B, T, H, D), and what becomes of them."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run, self.all = run, torch.nn.Linear(H * D, 3 * H * D)

    def split(self, x: Any) -> Any:
        return self.all(x).view(*x.shape[:2], 3, H, D).unbind(2)

    def forward(self, x: Any, *args: Any) -> Any:
        return self.run(*self.split(x), *args)


def folded(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.permute(2, 0, 1, 3).reshape(H * B, T, D) for x in (q, k, v))
    return SDPA(q, k, v).view(H, B, T, D).permute(1, 2, 0, 3).reshape(B, T, -1)


def heads_first(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    return SDPA(q, k, v).permute(1, 2, 0, 3).reshape(B, T, -1)


def windows(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.transpose(1, 2).reshape(B, H, T // 2, 2, D) for x in (q, k, v))
    return SDPA(q, k, v).reshape(B, H, T, D).transpose(1, 2).reshape(B, T, -1)


def one_query(q: Any, k: Any, v: Any) -> Any:
    return SDPA(*(x.transpose(1, 2) for x in (q[:, :, :1], k, v)))


def one_value(q: Any, k: Any, v: Any) -> Any:
    return SDPA(*(x.transpose(1, 2) for x in (q, k, v[:, :, :1])))


def seeded(run: Callable[..., Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return Attends(run).eval(), torch.randn(B, T, H * D)


@pytest.mark.parametrize("run", [folded, heads_first, windows, one_query, one_value])
def test_the_kernel_of_overt_puts_out_what_the_model_does(run: Callable[..., Any]) -> None:
    model, x = seeded(run)
    with torch.no_grad():
        expected = model(x)
        with overt.record(model, compute="overt") as rec:
            output = model(x)
        with overt.record(model) as own:
            model(x)
    torch.testing.assert_close(output, expected)
    np.testing.assert_allclose(rec[""].weights[...], own[""].weights[...], atol=1e-6)


def per_head(q: Any, k: Any) -> Any:
    return (q.transpose(1, 2) @ k.permute(0, 2, 3, 1) / D**0.5).softmax(-1)


@pytest.mark.parametrize(
    "weights",
    [
        lambda q, k: per_head(q[:, :, :1], k[:, :, :1]),
        lambda q, k: per_head(q[:1], k[:1])[0],
        lambda q, k: per_head(q[:1, :, :1], k[:1, :, :1])[0, 0],
    ],
    ids=["heads share", "samples share", "all share"],
)
@pytest.mark.parametrize("keep", ["qk", "statistics"])
def test_weights_may_be_shared(weights: Callable[..., Any], keep: str) -> None:
    model, x = seeded(lambda q, k, v: weights(q, k) @ v.transpose(1, 2))
    with torch.no_grad(), overt.record(model, keep=keep) as rec:
        model(x)
    expected = weights(*model.split(x)[:2]).expand(B, H, T, T).detach().numpy()
    if keep == "qk":
        np.testing.assert_allclose(rec[""].weights[...], expected, atol=1e-6)
    np.testing.assert_allclose(rec[""].received(), expected.sum(-2), atol=1e-5)


@pytest.mark.parametrize("compute", ["model", "overt"])
@pytest.mark.parametrize("keep", ["qk", "statistics"])
def test_the_previous_token_where_large_numbers_hide_every_key(
    keep: str, compute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_CELLS", 2 * B * H * T)
    mask = torch.full((T, T), -1e9).triu(1).repeat(B, 1, 1, 1)
    mask[1, :, :, :2] = -1e9
    model, x = seeded(lambda q, k, v: SDPA(*(y.transpose(1, 2) for y in (q, k, v)), attn_mask=mask))
    with torch.no_grad(), overt.record(model, keep=keep, compute=compute) as rec:
        model(x)
    q, k, _ = (y.detach().transpose(1, 2) for y in model.split(x))
    weights = (q @ k.mT / D**0.5 + mask).softmax(-1)
    expected = weights.diagonal(-1, 2, 3).mean((0, 2)).numpy()
    np.testing.assert_allclose(rec.measures()[""].previous, expected, atol=1e-5)


@pytest.mark.parametrize("keep", ["qk", "statistics"])
def test_queries_that_are_emptied_after_their_softmax_have_no_previous_token(keep: str) -> None:
    real = torch.arange(T) < 4
    model, x = seeded(lambda q, k, v: per_head(q, k).masked_fill(~real[:, None], 0) @ v.transpose(1, 2))
    with torch.no_grad(), overt.record(model, keep=keep) as rec:
        model(x)
    expected = per_head(*model.split(x)[:2])[:, :, :4].diagonal(-1, 2, 3).mean((0, 2)).detach().numpy()
    np.testing.assert_allclose(rec.measures()[""].previous, expected, atol=1e-6)
