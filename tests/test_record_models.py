"""overt.record on transformers: every architecture of the zoo, and everything that generates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

import overt
from overt.errors import RecordingError
from zoo import GROUPED, OTHERS, ZOO, T, decoder

transformers.logging.set_verbosity_error()
pytestmark = [pytest.mark.filterwarnings("ignore")]

REFUSED = {
    "longformer": r"could not follow 2 .*encoder\.layer\.0\.attention\.self: after its softmax, pad changes",
    "mamba": "nothing was recorded: no attention of the model ran",
    "led": r"could not follow 2 .*longformer_self_attn: after its softmax, pad changes",
    "nystromformer": r"could not follow 2 .*encoder\.layer\.0\.attention\.self",
    "bigbird": r"could not follow 2 .*encoder\.layer\.0\.attention\.self",
    "reformer": r"could not follow 2 .*layers\.0\.attention\.self_attention: it spells out its softmax by ",
    "yoso": "nothing was recorded: no attention of the model ran",
    "mamba2": "nothing was recorded: no attention of the model ran",
    "fnet": "nothing was recorded: no attention of the model ran",
    "rwkv": "nothing was recorded: no attention of the model ran",
}
SPECIES = ZOO | OTHERS
# Where the library's own eager mode is no measure: after a change of implementation its mask is another, with ALiBi its
# output is another too, and padding that sees nothing is given the uniform weights of a softmax of equal numbers.
FRESH = {"falcon"}
WRONG = {"falcon-alibi"}
PADDED = {"modernbert"}


def attentions(output: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for name, value in output.items():
        if "attention" in name and isinstance(value, tuple | list):
            found += [x for x in value if isinstance(x, Tensor)]
        elif hasattr(value, "items"):
            found += attentions(value)
    return found


def same(x: Any, y: Any) -> bool:
    return all(
        torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(x.to_tuple(), y.to_tuple(), strict=True)
        if isinstance(a, Tensor)
    )


def eager(name: str) -> tuple[Any, list[Tensor]]:
    """The model as it comes, and the weights that its eager mode returns."""
    species = SPECIES[name]
    model = species.build()
    own = model.config._attn_implementation
    measured = model
    if name in FRESH:
        measured = type(model)(type(model.config)(**species.config, attn_implementation="eager")).eval()
        measured.load_state_dict(model.state_dict())
    measured.set_attn_implementation("eager")
    with torch.no_grad():
        found = attentions(measured(**species.inputs(), output_attentions=True))
    if own != "eager":
        model.set_attn_implementation(own)
    return model, found


@pytest.mark.parametrize("name", SPECIES)
def test_the_zoo(name: str) -> None:
    model, expected = eager(name)
    inputs = SPECIES[name].inputs()
    with torch.no_grad():
        plain = model(**inputs)
        if name in REFUSED:
            with pytest.raises(RecordingError, match=REFUSED[name]), overt.record(model):
                model(**inputs)
            return
        with overt.record(model) as rec:
            output = model(**inputs)
        with overt.record(model, keep="statistics") as kept:
            model(**inputs)
    assert same(plain, output)
    assert len(rec) >= len({id(x) for x in expected})
    calls = {key: rec[key] for key in rec}
    for seen in calls.values():
        assert seen.deviation is None or seen.deviation < 2e-5
    if name in WRONG:
        model.set_attn_implementation("eager")
        with torch.no_grad():
            assert not torch.allclose(model(**inputs, output_attentions=True)[0], output[0], atol=1e-2)
        expected = []
    for weights in expected:
        errors = {key: difference(seen, weights, name) for key, seen in calls.items()}
        nearest = min(errors, key=lambda key: errors[key])
        assert errors[nearest] < 2e-5, errors
    for key, seen in calls.items():
        np.testing.assert_allclose(kept[key].received(), seen.received(), atol=2e-5)
        np.testing.assert_allclose(kept[key].entropy(), seen.entropy(), atol=2e-4)


def difference(seen: Any, weights: Tensor, name: str) -> float:
    """Largest difference of weights, of queries that see anything, and inf for those of another shape."""
    found, given = np.asarray(seen.weights), weights.numpy()
    if name == "longt5" and given.ndim == 5:
        given = given.reshape(-1, *given.shape[2:])
    if name == "wavlm":
        # Of which the library returns the mean of the heads.
        found, given = found.mean(1), given.mean(1)
    if found.shape != given.shape:
        return np.inf
    sees = found.sum(-1, keepdims=True) > 0
    if name in PADDED:
        sees = sees & (decoder(ZOO[name].inputs()["attention_mask"])["attention_mask"].numpy()[:, None, :, None] > 0)
    return float((np.abs(found - given) * sees).max())


def test_the_zoo_is_seen_as_the_page_says() -> None:
    assert len(ZOO) == 58
    assert len(ZOO.keys() - REFUSED.keys()) >= 56


def test_layers_without_attention_are_named() -> None:
    model = ZOO["jamba"].build()
    with torch.no_grad(), overt.record(model) as rec:
        model(**decoder())
    assert rec.without == ["layers.0", "layers.2"]
    assert "without attention: layers.0, layers.2" in str(rec)


@pytest.mark.parametrize("implementation", ["eager", "sdpa", "flex_attention"])
@pytest.mark.parametrize("name", ["llama", "gemma2", "t5", "bert"])
def test_every_implementation_gives_the_same(name: str, implementation: str) -> None:
    if (name, implementation) in (("gemma2", "sdpa"), ("t5", "flex_attention")):
        # transformers refuses a softcap under sdpa, and a bias without an axis of batch rows fails under flex.
        return
    model, expected = eager(name)
    model.set_attn_implementation(implementation)
    with torch.no_grad(), overt.record(model) as rec:
        model(**ZOO[name].inputs())
    for weights in expected:
        assert min(difference(rec[key], weights, name) for key in rec) < 2e-5


def language_model(name: str = "Llama", **config: Any) -> Any:
    torch.manual_seed(0)
    made = getattr(transformers, f"{name}Config")(**{**GROUPED, "eos_token_id": None, **config})
    model = getattr(transformers, f"{name}ForCausalLM")(made).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.copy_(torch.randn_like(p) * 0.2)
    return model


WAYS = {
    "dynamic": {},
    "static": {"cache_implementation": "static"},
    "beams": {"num_beams": 3, "num_return_sequences": 3},
    "sampling": {"do_sample": True, "num_return_sequences": 2},
    "lookup": {"prompt_lookup_num_tokens": 3},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("window", [None, 8])
def test_steps_of_a_generation_make_one_matrix(way: str, window: int | None) -> None:
    model = language_model() if window is None else language_model("Mistral", sliding_window=window)
    x = decoder()["input_ids"][:1, :10]
    options = {"max_new_tokens": 12, "do_sample": False, **WAYS[way]}
    with torch.no_grad():
        torch.manual_seed(1)
        plain = model.generate(x, **options)
        torch.manual_seed(1)
        with overt.record(model) as rec:
            written = model.generate(x, **options)
        assert torch.equal(plain, written)
        torch.manual_seed(1)
        with overt.record(model, keep="statistics", top=1) as kept:
            model.generate(x, **options)
        model.set_attn_implementation("eager")
        expected = model(written[:, :-1], output_attentions=True).attentions
    for layer, weights in enumerate(expected):
        name = f"model.layers.{layer}.self_attn"
        seen, given = rec[name], weights.numpy()
        assert len(rec.calls(name)) > 1
        assert seen.weights.shape[1:] == given.shape[1:]
        found = np.asarray(seen.weights)
        # Beams end in another order than they are returned in.
        rows = [min(range(len(found)), key=lambda b, row=row: np.abs(found[b] - row).max()) for row in given]
        np.testing.assert_allclose(found[rows], given, atol=2e-6)
        np.testing.assert_allclose(kept[name].entropy()[rows], seen.entropy()[rows], atol=1e-5)
        np.testing.assert_allclose(kept[name].top(1)[1][rows], given.max(-1)[..., None], atol=2e-6)
        if sum(call.weights.shape[2] for call in rec.calls(name)) > found.shape[2]:
            assert way == "lookup"
            with pytest.raises(RecordingError, match="taken back"):
                kept[name].received()
        else:
            np.testing.assert_allclose(kept[name].received()[rows], given.sum(-2), atol=2e-5)
    calls = rec.calls("model.layers.1.self_attn")
    assert calls[0].weights.shape[2] >= 10
    last = np.asarray(calls[-1].weights)[rows, :, -1]
    np.testing.assert_allclose(last, expected[1].numpy()[:, :, -1, -last.shape[-1] :], atol=2e-6)


@pytest.mark.parametrize("name", ["Bloom", "GPTJ", "GPT2"])
def test_generation_with_a_softmax_of_its_own(name: str) -> None:
    width = {"Bloom": {"hidden_size": 32}, "GPTJ": {"n_embd": 32, "rotary_dim": 4}, "GPT2": {"n_embd": 32}}[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=100, n_layer=2, n_head=4, eos_token_id=None, bos_token_id=1, pad_token_id=0, **width
    )
    model = getattr(transformers, f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config).eval()
    x = decoder()["input_ids"][:, :10]
    with torch.no_grad():
        with overt.record(model) as rec:
            written = model.generate(x, max_new_tokens=5, do_sample=False)
        model.set_attn_implementation("eager")
        expected = model(written[:, :-1], output_attentions=True).attentions
    for key, weights in zip(rec, expected, strict=True):
        np.testing.assert_allclose(rec[key].weights, weights, atol=2e-6)


@pytest.mark.parametrize("name", ["T5", "Bart"])
@pytest.mark.parametrize("keep", ["qk", "statistics"])
def test_encoder_decoders_with_cross_attention(name: str, keep: str) -> None:
    species = ZOO[name.lower()]
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(
        getattr(transformers, f"{name}Config")(**{**species.config, "eos_token_id": None, "forced_eos_token_id": None})
    ).eval()
    inputs = {k: v for k, v in species.inputs().items() if not k.startswith("decoder")}
    with torch.no_grad():
        alone = model.generate(**inputs, max_new_tokens=6, do_sample=False)
        with overt.record(model, keep=keep) as rec:
            written = model.generate(**inputs, max_new_tokens=6, do_sample=False)
        assert torch.equal(written, alone)
        model.set_attn_implementation("eager")
        expected = model(**inputs, decoder_input_ids=written[:, :-1], output_attentions=True)
    cross = [key for key in rec if "EncDec" in key or "encoder_attn" in key]
    own = [key for key in rec if key.startswith(("decoder", "model.decoder")) and key not in cross]
    for keys, given in ((cross, expected.cross_attentions), (own, expected.decoder_attentions)):
        for key, weights in zip(keys, given, strict=True):
            if keep == "qk":
                np.testing.assert_allclose(rec[key].weights, weights, atol=5e-6)
            np.testing.assert_allclose(rec[key].received(), weights.sum(-2), atol=2e-5)


@pytest.mark.parametrize("name", ["T5", "Bart"])
def test_cross_attention_alone_is_joined_too(name: str) -> None:
    """Its keys stay the same at every step; where it is in the text, attentions that nobody asked for tell."""
    species = ZOO[name.lower()]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(
        **{**species.config, "eos_token_id": None, "forced_eos_token_id": None}
    )
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    inputs = {k: v for k, v in species.inputs().items() if not k.startswith("decoder")}
    cross = ["*EncDecAttention", "*encoder_attn"]
    with torch.no_grad():
        with overt.record(model, layers=cross) as rec:
            written = model.generate(**inputs, max_new_tokens=6, do_sample=False)
        # Two texts over the same keys are two, and not one that goes on.
        given = model.get_encoder()(**inputs)
        with overt.record(model, layers=cross) as two:
            for start in (0, 1):
                model(encoder_outputs=given, decoder_input_ids=written[:, start : start + 3])
        model.set_attn_implementation("eager")
        expected = model(**inputs, decoder_input_ids=written[:, :-1], output_attentions=True).cross_attentions
    assert len(rec) == len(two) == len(expected)
    for key, weights in zip(rec, expected, strict=True):
        np.testing.assert_allclose(rec[key].weights, weights, atol=5e-6)
        assert len(two.calls(key)) == 2
        with pytest.raises(RecordingError, match="2 times to texts that do not continue"):
            two[key]


@pytest.mark.parametrize("window", [None, 3])
def test_padding_on_the_left_has_a_name(window: int | None) -> None:
    model = language_model() if window is None else language_model("Mistral", sliding_window=window)
    ids, seen = torch.arange(3, 3 + 2 * T).reshape(2, T), torch.ones(2, T, dtype=torch.int64)
    seen[0, :3] = 0
    with torch.no_grad(), overt.record(model) as rec:
        model(input_ids=ids, attention_mask=seen)
    core = "causal()" if window is None else "window(2, 0)"
    assert {repr(rec[name].problem.mask) for name in rec} == {f"{core} & ~padding([3, 0])"}


def test_half_precision_is_what_ran_and_not_what_eager_says() -> None:
    model = language_model().bfloat16()
    x = decoder()["input_ids"]
    with torch.no_grad():
        with overt.record(model) as rec:
            model(x)
        exact = rec["model.layers.0.self_attn"].problem
        scores = exact.q.astype(np.float64) @ np.repeat(exact.k, 2, 1).astype(np.float64).swapaxes(-1, -2) * 8**-0.5
        scores[..., np.triu(np.ones((T, T), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        model.set_attn_implementation("eager")
        rounded = model(x, output_attentions=True).attentions[0].float().numpy()
        with overt.record(model) as eager_run:
            model(x)
    found = np.asarray(rec["model.layers.0.self_attn"].weights)
    assert np.abs(found - weights).max() < 1e-4
    assert np.abs(rounded - weights).max() > 2e-3
    # What eager code computed is what is recorded of eager code.
    assert np.abs(np.asarray(eager_run["model.layers.0.self_attn"].weights) - rounded).max() < 2e-2


def test_an_argument_that_is_not_understood_is_named() -> None:
    def shifted(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, tilt: float = 0.0, **options: Any
    ) -> Any:
        scores = torch.arange(key.shape[2])[None] * tilt
        bias = scores if mask is None else mask + scores
        y = torch.nn.functional.scaled_dot_product_attention(
            query, *(x.repeat_interleave(2, 1) for x in (key, value)), attn_mask=bias
        )
        return y.transpose(1, 2), None

    transformers.AttentionInterface.register("shifted", shifted)
    model = language_model()
    model.set_attn_implementation("shifted")
    x = decoder()["input_ids"]
    message = r"model\.layers\.0\.self_attn: .*off the model's own output by .*tilt, which is not understood"
    with torch.no_grad():
        for keep in ("qk", "statistics"):
            with pytest.raises(RecordingError, match=message), overt.record(model, keep=keep) as rec:
                model(x, tilt=0.5)
            assert not len(rec)
        with (
            pytest.raises(RecordingError, match="tilt, which may change the weights"),
            overt.record(model, check=False),
        ):
            model(x, tilt=0.5)


def test_overts_kernel_writes_the_same_tokens() -> None:
    model = language_model()
    x = decoder()["input_ids"][:1, :10]
    with torch.no_grad():
        plain = model.generate(x, max_new_tokens=6, do_sample=False)
        with overt.record(model, compute="overt") as rec:
            written = model.generate(x, max_new_tokens=6, do_sample=False)
    assert torch.equal(plain, written)
    assert rec["model.layers.0.self_attn"].weights.shape == (1, 4, 15, 15)


def test_gradients_of_functions_are_named() -> None:
    model, x = language_model(), decoder()["input_ids"][:, :5]

    def loss(parameters: Any) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,)).logits.sum()

    message = r"model\.layers\.0\.self_attn: it runs inside torch\.func"
    with pytest.raises(RecordingError, match=message), overt.record(model):
        torch.func.grad(loss)(dict(model.named_parameters()))


@pytest.mark.parametrize("way", ["dynamic", "static"])
def test_generation_after_padding_on_the_left(way: str) -> None:
    model = language_model()
    x, seen = decoder()["input_ids"][:, :10], torch.ones(2, 14, dtype=torch.int64)
    seen[1, :4] = 0
    with torch.no_grad():
        with overt.record(model) as rec:
            written = model.generate(
                x, attention_mask=seen[:, :10], max_new_tokens=5, do_sample=False, cache_implementation=way
            )
        model.set_attn_implementation("eager")
        expected = model(written[:, :-1], attention_mask=seen, output_attentions=True).attentions
    for name, weights in zip(rec, expected, strict=True):
        found = np.asarray(rec[name].weights)
        np.testing.assert_allclose(found, weights * (found.sum(-1, keepdims=True) > 0), atol=2e-6)


def test_a_model_that_assists_is_another() -> None:
    model, other = language_model(), language_model(num_hidden_layers=1)
    x = decoder()["input_ids"][:1, :10]
    with torch.no_grad():
        with overt.record(model) as rec, overt.record(other) as beside:
            written = model.generate(x, assistant_model=other, max_new_tokens=6, do_sample=False)
        model.set_attn_implementation("eager")
        expected = model(written[:, :-1], output_attentions=True).attentions
    for name, weights in zip(rec, expected, strict=True):
        np.testing.assert_allclose(rec[name].weights, weights, atol=2e-6)
    assert beside.names == ["model.layers.0.self_attn"]
