"""What a recording can be asked: measures of heads, mass, means, rollout, files, pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import overt
from overt.errors import ArgumentError, DtypeError, FileError, RecordingError, ShapeError
from overt.torch.record import Recording, load
from overt.torch.record.labels import places
from overt.torch.record.relations import following
from overt.views.tiles import Tiles

B, H, T = 2, 2, 12


class Attention(nn.Module):
    """Attention whose scores are chosen: q and k are one-hot, so that q kᵀ is any matrix."""

    def __init__(self, scores: Tensor, by_hand: bool = False) -> None:
        super().__init__()
        self.scores, self.by_hand, self.num_heads = scores, by_hand, scores.shape[1]

    def forward(self, ids: Tensor) -> Tensor:
        k = torch.eye(self.scores.shape[-1]).expand(*self.scores.shape[:2], -1, -1)
        v = torch.randn(k.shape, generator=torch.Generator().manual_seed(0))
        if self.by_hand:
            scores = (self.scores @ k.mT).masked_fill(~CAUSAL, -torch.inf)
            return scores.softmax(-1) @ v
        return functional.scaled_dot_product_attention(self.scores, k, v, attn_mask=CAUSAL, scale=1.0)


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, input_ids: Tensor) -> Any:
        return [layer(input_ids) for layer in self.layers]


CAUSAL = torch.ones(T, T).tril().bool()
IDS = torch.tensor([[1, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 2], [1, 3, 3, 3, 4, 4, 6, 7, 8, 9, 5, 2]])


def scores(seed: int) -> Tensor:
    return torch.randn(B, H, T, T, generator=torch.Generator().manual_seed(seed)) * 2


def recorded(keep: str = "qk", by_hand: bool = False) -> tuple[Recording, np.ndarray]:
    """A recording of two layers and their weights (L, B, H, T, S)."""
    model = Model(*(Attention(scores(i), by_hand) for i in range(2)))
    with torch.no_grad(), overt.record(model, keep=keep, top=T) as rec:
        model(input_ids=IDS)
    exact = torch.stack([scores(i).double().masked_fill(~CAUSAL, -torch.inf).softmax(-1) for i in range(2)])
    return rec, exact.numpy()


KINDS = [("qk", False), ("statistics", False), ("disk", False), ("qk", True), ("statistics", True)]


@pytest.mark.parametrize(("keep", "by_hand"), KINDS)
def test_measures_are_those_of_the_weights(keep: str, by_hand: bool) -> None:
    rec, exact = recorded(keep, by_hand)
    found = rec.measures(special=[1, 2])
    assert list(found) == rec.names == ["layers.0", "layers.1"]
    for layer, (w, measured) in enumerate(zip(exact, found.values(), strict=True)):
        share = w.sum(-2) / T
        np.testing.assert_allclose(measured.first, share[..., 0].mean(0), atol=1e-6)
        np.testing.assert_allclose(measured.sinks, (share > 0.3).sum(-1).mean(0))
        np.testing.assert_allclose(measured.special, share[..., [0, T - 1]].sum(-1).mean(0), atol=1e-6)
        entropy = -(w * np.log(np.where(w > 0, w, 1))).sum(-1)[..., 1:] / np.log(np.arange(2, T + 1))
        np.testing.assert_allclose(measured.entropy, entropy.mean((0, 2)), atol=1e-5)
        np.testing.assert_allclose(measured.previous, w[..., range(1, T), range(T - 1)].mean((0, 2)), atol=1e-6)
        pairs = [(b, t, after(b, t)) for b in range(B) for t in range(T) if after(b, t) is not None]
        induction = np.mean([w[b, :, t, s] for b, t, s in pairs], 0)
        np.testing.assert_allclose(measured.induction, induction, atol=1e-6, err_msg=str(layer))
    assert json.dumps(found["layers.0"].as_dict())


def after(b: int, t: int) -> int | None:
    """The place after the last earlier one with the token at t."""
    row = IDS[b].tolist()
    before = [s for s in range(t) if row[s] == row[t]]
    return before[-1] + 1 if before and before[-1] + 1 != t else None


def test_a_query_that_sees_one_key_has_no_bound_of_its_entropy() -> None:
    class Alone(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(x, x, x, torch.eye(x.shape[-2], dtype=torch.bool))

    model = Alone()
    with torch.no_grad(), overt.record(model) as rec:
        model(torch.randn(1, 2, 5, 8))
    assert np.isnan(rec.measures()[""].entropy).all()
    assert "–" in str(rec)
    assert "nan" not in str(rec)


@pytest.mark.parametrize("T", [1, 3, 12])
def test_where_a_token_stood_before(T: int) -> None:
    expected = [[after(b, t) for t in range(12 - T, 12)] for b in range(B)]
    found = following(IDS.numpy(), T)
    assert found.tolist() == [[-1 if x is None else x for x in row] for row in expected]
    many = np.tile(IDS.numpy(), (1, 40))
    np.testing.assert_array_equal(following(many, many.shape[1])[:, -T:], following(many, T))


def test_ids_that_the_model_was_not_given() -> None:
    rec, _ = recorded()
    one = rec.measures(ids=IDS.numpy())
    np.testing.assert_array_equal(one["layers.0"].induction, rec.measures()["layers.0"].induction)
    with pytest.raises(ShapeError, match=r"ids have shape \(3,\), but layers\.0 has 2 × 12 queries"):
        rec.measures(ids=np.arange(3))
    kept, _ = recorded("statistics")
    with pytest.raises(RecordingError, match="other ids needs cells"):
        kept.measures(ids=IDS.numpy())


@pytest.mark.parametrize(("keep", "by_hand"), KINDS)
def test_mass(keep: str, by_hand: bool) -> None:
    rec, exact = recorded(keep, by_hand)
    found = rec.mass({"needle": slice(3, 6), "ends": [0, -1]})
    np.testing.assert_allclose(found["needle"]["layers.1"], exact[1, ..., 3:6].sum((-1, -2)) / T, atol=1e-6)
    np.testing.assert_allclose(found["ends"]["layers.0"], exact[0][..., [0, -1]].sum((-1, -2)) / T, atol=1e-6)
    if keep == "statistics":
        with pytest.raises(RecordingError, match="no cells"):
            rec.mass({"needle": slice(3, 6)}, queries=-1)
        return
    last = rec.mass({"needle": slice(3, 6)}, queries=-1, names="*.0")["needle"]
    assert list(last) == ["layers.0"]
    np.testing.assert_allclose(last["layers.0"], exact[0, ..., -1, 3:6].sum(-1), atol=1e-6)
    outside = slice(T, T + 2)
    for keys, queries in ((slice(0, 2), 99), ([T], None), ("needle", None), (outside, None), (slice(0, 2), outside)):
        with pytest.raises(ArgumentError, match=r"layers\.0"):
            rec.mass({"x": keys}, queries=queries)


@pytest.mark.parametrize("by_hand", [False, True])
def test_means_and_rollout(by_hand: bool) -> None:
    rec, exact = recorded(by_hand=by_hand)
    np.testing.assert_allclose(rec.mean(), exact.mean((0, 2)), atol=1e-6)
    np.testing.assert_allclose(rec.mean(heads=False), exact.mean(0), atol=1e-6)
    np.testing.assert_allclose(rec.mean(layers=False), exact.mean(2), atol=1e-6)
    np.testing.assert_allclose(rec.mean("layers.1", layers=False, heads=False), exact[1:], atol=1e-6)
    layers = exact.mean(2) / 2 + np.eye(T) / 2
    np.testing.assert_allclose(rec.rollout(), layers[1] @ layers[0], atol=1e-6)
    np.testing.assert_allclose(rec.rollout().sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(rec.rollout(["layers.0"], residual=0), exact[0].mean(1), atol=1e-6)
    with pytest.raises(ArgumentError, match="residual"):
        rec.rollout(residual=1)
    for ask in (rec.rollout, rec.mean):
        with pytest.raises(ArgumentError, match="of no attention"):
            ask([])


def test_attentions_of_several_shapes_make_no_mean() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attentions = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

        def forward(self, x: Tensor) -> None:
            self.attentions[0](x, x, x)
            self.attentions[1](x, x[:, :3], x[:, :3])

    model = Two()
    with torch.no_grad(), overt.record(model) as rec:
        model(torch.ones(1, 5, 8))
    with pytest.raises(RecordingError, match=r"attentions\.1 has weights of shape .*name attentions"):
        rec.mean()
    with pytest.raises(RecordingError, match=r"attentions\.1 has 5 queries and 3 keys"):
        rec.rollout()


@pytest.mark.parametrize(("keep", "by_hand"), KINDS)
def test_saved_and_loaded(keep: str, by_hand: bool, tmp_path: Path) -> None:
    rec, _ = recorded(keep, by_hand)
    path = rec.save(tmp_path / "rec.npz")
    again = load(path)
    assert (again.names, again.without, again.unseen, str(again)) == (rec.names, rec.without, rec.unseen, str(rec))
    for name in rec:
        one, two = rec[name], again[name]
        np.testing.assert_array_equal(one.lse, two.lse)
        np.testing.assert_allclose(one.received(), two.received(), atol=1e-6)
        np.testing.assert_array_equal(one.top(2)[0], two.top(2)[0])
        assert one.deviation == two.deviation
        if keep != "statistics":
            np.testing.assert_allclose(one.weights, two.weights, atol=1e-6)
        for kind in ("first", "previous", "induction"):
            np.testing.assert_allclose(*(getattr(x.measures()[name], kind) for x in (rec, again)), atol=1e-6)
    with np.load(path, allow_pickle=False) as arrays:
        assert all(x.dtype.kind in "fiub" for x in arrays.values())
    with pytest.raises(RecordingError, match="runs once"), again:
        pass


def test_files_that_are_no_recordings(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with pytest.raises(FileError, match="cannot read"):
        load(path)
    for write in (
        lambda: path.write_bytes(b"nonsense"),
        lambda: np.savez(path, q=np.ones(3)),
        lambda: np.savez(path, recording=np.frombuffer(b"[1]", np.uint8)),
        lambda: np.savez(path, recording=np.frombuffer(b'{"format": 1, "entries": [{}], "without": []}', np.uint8)),
        lambda: np.savez(path),
        lambda: np.savez(path, recording=np.array([object()]), allow_pickle=True),
    ):
        write()
        with pytest.raises(FileError, match=r"x\.npz"):
            load(path)
    np.savez(path, recording=np.frombuffer(b'{"format": 9}', np.uint8))
    with pytest.raises(FileError, match="format 9, and this version reads 1"):
        load(path)
    rec, _ = recorded()
    # Of a whole one, what is not to be missed.
    for keep, key, missing in (("qk", "0.k", "q"), ("statistics", "0.entropy", "entropy")):
        whole = dict(np.load(recorded(keep=keep)[0].save(path)))
        del whole[key]
        np.savez(path, **whole)
        with pytest.raises(FileError, match=f"holds no recording: KeyError '{missing}'"):
            load(path)
    with pytest.raises(FileError, match="cannot write"):
        rec.save(tmp_path / "no" / "x.npz")


WORDS = [f"w{i}" for i in range(T)]


def test_views_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rec, exact = recorded()
    page = rec.page(tmp_path / "a.html", tokens=WORDS).read_text()
    assert "w11" in page
    view = overt.show(rec, tokens=WORDS)
    assert "w11" in capsys.readouterr().out
    assert [(part.name, part.layer) for part in view.parts] == [("layers", 0), ("layers", 1)]
    np.testing.assert_allclose(view.parts[1].seen.weights, exact[1], atol=1e-6)
    # What a notebook asks of the kernel, and what it shows of the recording itself.
    asked = {"what": "cells", "part": 1, "row": 1, "heads": [1], "t": [2, T], "s": [0, T], "how": "one"}
    (cells,) = Tiles(view).answer(asked)
    np.testing.assert_allclose(np.maximum(cells, 0), exact[1, 1, 1, 2:], atol=1e-6)
    assert "<pre>name" in rec._repr_html_()
    with pytest.raises(ShapeError, match="3 tokens, but the attentions have 12 keys"):
        overt.show(rec, tokens=WORDS[:3])
    with pytest.raises(DtypeError, match="list of strings"):
        rec.page(tmp_path / "a.html", tokens="some text")
    kept, _ = recorded("statistics")
    with pytest.raises(RecordingError, match=r'layers\.0: only statistics were kept.*keep="qk"'):
        kept.page(tmp_path / "b.html")
    assert not (tmp_path / "b.html").exists()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["model.layers.3.self_attn", "model.layers.7.self_attn"], [("self_attn", 3), ("self_attn", 7)]),
        (
            ["m.encoder.layers.0.self_attn", "m.decoder.layers.0.self_attn", "m.decoder.layers.0.encoder_attn"],
            [("encoder.layers.self_attn", 0), ("decoder.layers.self_attn", 0), ("decoder.layers.encoder_attn", 0)],
        ),
        (
            ["stages.0.blocks.0.attn", "stages.0.blocks.1.attn", "stages.1.blocks.0.attn"],
            [("attn", i) for i in range(3)],
        ),
        ([""], [("attention", 0)]),
        (["attn", "attn#2"], [("attn", 0), ("attn#2", 0)]),
    ],
)
def test_names_of_layers(names: list[str], expected: list[tuple[str, int]]) -> None:
    assert places(names) == expected
