"""Layers against torch.nn, against the lessons, and against themselves in another array library."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from overt import layers
from overt.attended import Attended
from overt.errors import ArgumentError, ShapeError
from overt.masks import padding

LESSONS = json.loads((Path(__file__).parent / "lessons.json").read_text())


def array(value: Any) -> np.ndarray:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def close(got: Any, expected: Any, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(array(got), array(expected), rtol=0, atol=tolerance)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def attention_of(module: torch.nn.MultiheadAttention) -> dict[str, np.ndarray]:
    names = ("query", "key", "value")
    weights = dict(zip(names, array(module.in_proj_weight).reshape(3, module.embed_dim, -1), strict=True))
    biases = dict(zip(names, array(module.in_proj_bias).reshape(3, -1), strict=True))
    return {
        **{f"{name}_weight": weight for name, weight in weights.items()},
        **{f"{name}_bias": bias for name, bias in biases.items()},
        "output_weight": array(module.out_proj.weight),
        "output_bias": array(module.out_proj.bias),
    }


def norm_of(module: torch.nn.LayerNorm) -> dict[str, np.ndarray]:
    return {"scale": array(module.weight), "offset": array(module.bias)}


def feed_forward_of(module: Any) -> dict[str, np.ndarray]:
    return {
        "inner_weight": array(module.linear1.weight),
        "inner_bias": array(module.linear1.bias),
        "outer_weight": array(module.linear2.weight),
        "outer_bias": array(module.linear2.bias),
    }


def randomized(module: torch.nn.Module) -> Any:
    """In float64, with biases, scales and offsets that are not 0 and 1."""
    torch.manual_seed(1)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return module


def libraries(f: Callable[..., Any], parameters: Any, *arrays: np.ndarray) -> Any:
    """The result of NumPy, once that of torch agrees."""

    def converted(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: converted(part) for name, part in node.items()}
        if isinstance(node, list):
            return [converted(part) for part in node]
        return torch.from_numpy(node) if isinstance(node, np.ndarray) else node

    found = f(parameters, *arrays)
    close(f(converted(parameters), *map(converted, arrays)), found, 1e-12)
    return found


def test_multi_head_attention_is_that_of_torch() -> None:
    module = randomized(torch.nn.MultiheadAttention(12, 3, batch_first=True))
    x, z, lengths = draw(2, 5, 12), draw(2, 7, 12), np.array([7, 4])
    found = libraries(
        lambda p, x, z: layers.multi_head_attention(x, z, p, heads=3, mask=padding(lengths)), attention_of(module), x, z
    )
    hidden = torch.arange(7) >= torch.from_numpy(lengths)[:, None]
    x, z = torch.from_numpy(x), torch.from_numpy(z)
    close(found, module(x, z, z, key_padding_mask=hidden)[0])


def test_grouped_queries_share_keys() -> None:
    p = {
        "query_weight": draw(8, 6),
        "key_weight": draw(4, 6),
        "value_weight": draw(4, 6),
        "output_weight": draw(6, 8),
    }
    x = draw(3, 5, 6)
    # Four heads of width 2 over two pairs of keys and values, each repeated for two heads.
    wide = {**p, **{k: p[k].reshape(2, 2, 6).repeat(2, axis=0).reshape(8, 6) for k in ("key_weight", "value_weight")}}
    close(layers.multi_head_attention(x, x, p, heads=4), layers.multi_head_attention(x, x, wide, heads=4), 1e-12)


@pytest.mark.parametrize(("name", "activation"), [("relu", layers.relu), ("gelu", layers.gelu)])
def test_encoder_layer_is_that_of_torch(name: str, activation: Any) -> None:
    other = torch.nn.functional.relu if name == "relu" else torch.nn.GELU("tanh")
    module = randomized(torch.nn.TransformerEncoderLayer(8, 2, 16, activation=other, batch_first=True))
    p = {
        "attention": attention_of(module.self_attn),
        "attention_norm": norm_of(module.norm1),
        "feed_forward": feed_forward_of(module),
        "feed_forward_norm": norm_of(module.norm2),
    }
    x = draw(2, 5, 8)
    found = libraries(lambda p, x: layers.encoder_layer(x, p, heads=2, activation=activation), p, x)
    close(found, module(torch.from_numpy(x)))


def test_decoder_layer_is_that_of_torch_at_once_and_step_by_step() -> None:
    module = randomized(torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True))
    p = {
        "attention": attention_of(module.self_attn),
        "attention_norm": norm_of(module.norm1),
        "cross": attention_of(module.multihead_attn),
        "cross_norm": norm_of(module.norm2),
        "feed_forward": feed_forward_of(module),
        "feed_forward_norm": norm_of(module.norm3),
    }
    x, memory = draw(2, 5, 8), draw(2, 4, 8)

    def decode(p: Any, x: Any, memory: Any) -> Any:
        context = layers.keys_and_values(memory, p["cross"], heads=2)
        return layers.decoder_layer(x, context, p, heads=2)[0]

    found = libraries(decode, p, x, memory)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    close(found, module(torch.from_numpy(x), torch.from_numpy(memory), tgt_mask=causal))
    context, past = layers.keys_and_values(memory, p["cross"], heads=2), None
    for t in range(5):
        step, past = layers.decoder_layer(x[:, t : t + 1], context, p, heads=2, past=past)
        close(step[:, 0], found[:, t], 1e-12)


def encoder_of(module: Any) -> dict[str, Any]:
    return {
        "attention": attention_of(module.self_attn),
        "attention_norm": norm_of(module.norm1),
        "feed_forward": feed_forward_of(module),
        "feed_forward_norm": norm_of(module.norm2),
    }


def embeddings() -> dict[str, Any]:
    return {"token_embedding": draw(11, 8), "position_embedding": draw(9, 8), "unembedding": draw(11, 8) + 1}


TOKENS = np.array([[1, 5, 3, 10, 2], [7, 7, 0, 4, 6]])


def test_the_decoder_only_transformer_is_that_of_torch() -> None:
    gelu = torch.nn.GELU("tanh")
    modules = [
        randomized(torch.nn.TransformerEncoderLayer(8, 2, 16, activation=gelu, batch_first=True, norm_first=True))
        for _ in range(2)
    ]
    final = randomized(torch.nn.LayerNorm(8))
    p = {**embeddings(), "layers": [encoder_of(module) for module in modules], "final_norm": norm_of(final)}
    found = libraries(lambda p, x: layers.decoder_transformer(x, p, heads=2), p, TOKENS)
    x = torch.from_numpy(p["token_embedding"][TOKENS] + p["position_embedding"][:5])
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    for module in modules:
        x = module(x, src_mask=causal)
    close(found, final(x) @ torch.from_numpy(p["unembedding"]).T)


def test_the_encoder_only_transformer_is_that_of_torch() -> None:
    gelu = torch.nn.GELU("tanh")
    module = randomized(torch.nn.TransformerEncoderLayer(8, 2, 16, activation=gelu, batch_first=True))
    final, norm = randomized(torch.nn.Linear(8, 8)), randomized(torch.nn.LayerNorm(8))
    p = {
        **embeddings(),
        "layers": [encoder_of(module)],
        "final_weight": array(final.weight),
        "final_bias": array(final.bias),
        "final_norm": norm_of(norm),
    }
    lengths = np.array([5, 3])
    found = libraries(lambda p, x, n: layers.encoder_transformer(x, p, heads=2, lengths=n), p, TOKENS, lengths)
    x = torch.from_numpy(p["token_embedding"][TOKENS] + p["position_embedding"][:5])
    hidden = torch.arange(5) >= torch.from_numpy(lengths)[:, None]
    x = module(x, src_key_padding_mask=hidden)
    expected = norm(gelu(final(x))) @ torch.from_numpy(p["unembedding"]).T
    close(found[0], expected[0])
    close(found[1, :3], expected[1, :3])


def test_the_encoder_decoder_transformer_is_that_of_torch() -> None:
    encoder = randomized(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
    decoder = randomized(torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True))
    p = {
        **embeddings(),
        "encoder": [encoder_of(encoder)],
        "decoder": [
            {
                **encoder_of(decoder),
                "cross": attention_of(decoder.multihead_attn),
                "cross_norm": norm_of(decoder.norm2),
                "feed_forward_norm": norm_of(decoder.norm3),
            }
        ],
    }
    source, target = TOKENS, TOKENS[:, ::-1][:, :4].copy()
    found = libraries(lambda p, z, x: layers.encoder_decoder_transformer(z, x, p, heads=2), p, source, target)
    z, x = (torch.from_numpy(p["token_embedding"][t] + p["position_embedding"][: t.shape[1]]) for t in (source, target))
    causal = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    close(found, decoder(x, encoder(z), tgt_mask=causal) @ torch.from_numpy(p["unembedding"]).T)


def test_generation_goes_on_from_the_prompt() -> None:
    table = np.random.default_rng(0).normal(size=(6, 6))

    def scores(tokens: np.ndarray) -> np.ndarray:
        return table[tokens]

    prompt = np.array([[0, 1], [2, 3]])
    greedy = layers.generate(scores, prompt, 3)
    assert greedy[:, 0].tolist() == table[[1, 3]].argmax(axis=1).tolist()
    assert greedy[:, 1].tolist() == table[greedy[:, 0]].argmax(axis=1).tolist()
    cold = layers.generate(scores, prompt, 3, temperature=1e-9, rng=np.random.default_rng(0))
    assert np.array_equal(cold, greedy)
    with pytest.raises(ArgumentError, match="temperature"):
        layers.generate(scores, prompt, 3, temperature=0, rng=np.random.default_rng(0))
    many = layers.generate(scores, np.ones((20_000, 1), int), 1, rng=np.random.default_rng(0))
    close(np.bincount(many[:, 0], minlength=6) / 20_000, layers.softmax(table[1]), 0.02)


def gru_of(module: torch.nn.GRU, suffix: str = "") -> dict[str, np.ndarray]:
    names = {"input_weight": "weight_ih", "state_weight": "weight_hh", "input_bias": "bias_ih", "state_bias": "bias_hh"}
    return {name: array(getattr(module, f"{theirs}_l0{suffix}")) for name, theirs in names.items()}


def test_gru_is_that_of_torch() -> None:
    module = randomized(torch.nn.GRU(3, 4, batch_first=True, bidirectional=True))
    p = {"forwards": gru_of(module), "backwards": gru_of(module, "_reverse")}
    x, lengths = draw(2, 6, 3), np.array([6, 4])
    found = libraries(lambda p, x, n: layers.bidirectional_gru(x, p, lengths=n), p, x, lengths)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.from_numpy(x), torch.from_numpy(lengths), batch_first=True)
    expected = torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0], batch_first=True)[0]
    close(found[0], expected[0])
    close(found[1, :4], expected[1, :4])


def test_gru_cell_is_a_step_of_the_gru() -> None:
    module = randomized(torch.nn.GRU(3, 4, batch_first=True))
    x, state = draw(2, 3), draw(2, 4)
    expected = module(torch.from_numpy(x)[:, None], torch.from_numpy(state)[None])[0][:, 0]
    close(libraries(lambda p, x, s: layers.gru_cell(x, s, p), gru_of(module), x, state), expected)


def test_lesson_of_the_single_query() -> None:
    d = LESSONS["single_query"]
    weight = np.outer(np.arange(1.0, 11.0), np.ones(10))
    p = {f"{name}_weight": weight for name in ("query", "key", "value")} | {"value_bias": np.array(d["value_bias"])}
    context = np.outer([2.0, 3.0, 4.0], np.ones(10))
    close(libraries(lambda p, c, z: layers.single_query_attention(c, z, p), p, np.ones(10), context), d["output"])


def test_lesson_of_additive_attention() -> None:
    d, random = LESSONS["additive"], np.random.RandomState(42)
    states, state, layer_1, layer_2 = (random.randn(*shape) for shape in ((5, 16), (1, 16), (32, 10), (10, 1)))
    # The lesson maps encoder and decoder states, side by side, with one matrix.
    p = {"key_weight": layer_1[:16].T, "query_weight": layer_1[16:].T, "score_weight": layer_2[:, 0]}
    found: list[Attended] = []
    context = layers.additive_attention(state, states, states, p, attention=layers.watched(found))
    close(found[0].weights[0, 0], np.array(d["weights"])[:, 0])
    close(context[0], d["context"])


def test_lesson_of_the_encoder_and_decoder() -> None:
    d, random = LESSONS["encoder_decoder"], np.random.RandomState(0)
    query, *keys_and_values = (random.rand(3, n, 18) for n in (10, 9, 9))
    none, all_ = np.zeros((18, 18)), np.eye(18)
    p = {"query_weight": all_, "key_weight": np.hstack([all_, none]), "value_weight": np.hstack([none, all_])}
    found: list[Attended] = []
    context = layers.attention_layer(
        query, np.concatenate(keys_and_values, axis=-1), p, attention=layers.watched(found)
    )
    assert list(context.shape) == d["context_shape"]
    close(found[0].weights[0, 0, 0], d["weights_first_row"])
    close(context[0, 0], d["context_first_row"])


def test_bilinear_attention_is_softmax_of_the_product() -> None:
    q, k, v, weight = draw(2, 3, 4), draw(2, 5, 6), draw(2, 5, 7), draw(4, 6)
    found = libraries(lambda p, q, k, v: layers.bilinear_attention(q, k, v, p), {"product_weight": weight}, q, k, v)
    close(found, layers.softmax(q @ weight @ np.swapaxes(k, 1, 2)) @ v, 1e-12)


def test_softmax_sigmoid_and_norm_at_the_ends_of_the_floats() -> None:
    with np.errstate(all="raise", under="ignore"):
        close(layers.softmax(np.array([1e4, -1e4, 1e4])), [0.5, 0, 0.5])
        close(layers.sigmoid(np.array([-1e4, 0, 1e4])), [0, 0.5, 1])
        close(layers.layer_norm(np.full((2, 3), 7.0), np.ones(3), np.full(3, 0.5)), np.full((2, 3), 0.5))


def test_nested_names() -> None:
    flat = {f"layers.{i}.norm.scale": np.full(1, i) for i in range(11)} | {"embedding": np.ones(2)}
    tree = layers.nested(flat)
    assert [int(layer["norm"]["scale"][0]) for layer in tree["layers"]] == list(range(11))
    assert tree["embedding"] is flat["embedding"]


def test_what_does_not_fit_is_named() -> None:
    p = attention_of(torch.nn.MultiheadAttention(12, 3))
    with pytest.raises(ArgumentError, match="12 rows, which do not split into 5 heads"):
        layers.multi_head_attention(draw(2, 12), draw(2, 12), p, heads=5)
    with pytest.raises(ShapeError, match="x has width 11 but the weight"):
        layers.multi_head_attention(draw(2, 11), draw(2, 12), p, heads=3)
    with pytest.raises(ShapeError, match="do not split into heads of width 4"):
        layers.multi_head_attention(draw(2, 12), draw(2, 12), {**p, "key_weight": draw(6, 12)}, heads=3)
