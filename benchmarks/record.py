"""What does it cost to record a model?  One forward without gradients, one thread, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

LENGTHS = (512, 2048, 8192)
# A tiny model, and the shape of one of 135 million parameters with a third of its layers.
MODELS = {
    "tiny, 4 layers, 4 heads of 32": {
        "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 256,
    },
    "135M shape, 10 layers, 9 heads of 64": {
        "hidden_size": 576, "num_hidden_layers": 10, "num_attention_heads": 9, "num_key_value_heads": 3,
        "intermediate_size": 1536,
    },
}  # fmt: skip
# Options of overt.record; None runs the model alone.
WAYS = {
    "plain": None,
    "statistics": {"keep": "statistics"},
    "statistics, top 8": {"keep": "statistics", "top": 8},
    "qk": {"keep": "qk"},
    "overt's kernel, statistics": {"keep": "statistics", "compute": "overt"},
    "eager": None,
}
# Where all weights would take gigabytes, nobody makes them.
EAGER_UNTIL = 2048

MEASURE = """
import json, resource, sys, time
import torch, transformers, overt
torch.set_num_threads(1)
overt.set_num_threads(1)
torch.manual_seed(0)
way, config, options, T, repeats = json.loads(sys.argv[1])
model = transformers.LlamaModel(
    transformers.LlamaConfig(vocab_size=512, max_position_embeddings=T, use_cache=False, **config)
).eval()
model.set_attn_implementation("eager" if way == "eager" else "sdpa")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def run(ids):
    if options is None:
        model(ids, output_attentions=way == "eager")
        return 0
    with overt.record(model, **options) as rec:
        model(ids)
    return rec.nbytes / 2**20
with torch.no_grad():
    run(torch.zeros(1, 64, dtype=torch.int64))
    ids = torch.randint(512, (1, T))
    before, seconds = peak(), []
    for _ in range(repeats):
        start = time.process_time()
        held = run(ids)
        seconds.append(time.process_time() - start)
print(json.dumps([min(seconds), peak() - before, held]))
"""


def measure(way: str, config: dict[str, int], T: int) -> tuple[float, float, float]:
    """Seconds of the processor, MiB at the peak beyond the model, and MiB that the recording holds."""
    asked = json.dumps([way, config, WAYS[way], T, 5 if T < 1000 else 3 if T < 5000 else 1])
    done = subprocess.run([sys.executable, "-c", MEASURE, asked], capture_output=True, text=True, check=True)
    seconds, peak, held = json.loads(done.stdout)
    return seconds, peak, held


def table() -> str:
    """A line for each model and length: seconds, their ratio to plain, and MiB at the peak (held)."""
    lines = ["| model | T | " + " | ".join(WAYS) + " |", "|---" * (len(WAYS) + 2) + "|"]
    for name, config in MODELS.items():
        for T in LENGTHS:
            cells, plain = [], 0.0
            for way in WAYS:
                if way == "eager" and T > EAGER_UNTIL:
                    cells.append("")
                    continue
                seconds, peak, held = measure(way, config, T)
                plain = plain or seconds
                kept = f" ({held:.1f} held)" if held else ""
                cells.append(f"{seconds:.3g} s, {seconds / plain:.2f} ×, {peak:.0f} MiB{kept}")
            lines.append(f"| {name} | {T:,} | " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)
