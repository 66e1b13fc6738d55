"""What does it cost to record a model?  One forward without gradients, one thread.

Times are those of the processor, of all ways in turns; peaks come from processes in which the model ran alone first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median
from typing import Any

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
ways, config, T, rounds = json.loads(sys.argv[1])
model = transformers.LlamaModel(
    transformers.LlamaConfig(vocab_size=512, max_position_embeddings=T, use_cache=False, **config)
).eval()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def run(way, ids):
    if ways[way] is None:
        model.set_attn_implementation("eager" if way == "eager" else "sdpa")
        model(ids, output_attentions=way == "eager")
        model.set_attn_implementation("sdpa")
        return 0
    with overt.record(model, **ways[way]) as rec:
        model(ids)
    return rec.nbytes / 2**20
with torch.no_grad():
    for way in ways:
        run(way, torch.zeros(1, 64, dtype=torch.int64))
    ids = torch.randint(512, (1, T))
    seconds, held = {way: [] for way in ways}, {}
    # Nobody's peak but the last one's tells what it was.
    for _ in range(rounds):
        for way in ways:
            before = peak()
            start = time.process_time()
            held[way] = run(way, ids)
            seconds[way].append(time.process_time() - start)
print(json.dumps([seconds, held, peak() - before, before]))
"""


def measure(ways: list[str], config: dict[str, int], T: int, rounds: int) -> list[Any]:
    """What a process of its own finds: seconds and MiB held of each way, and the last one's peak above all before."""
    asked = json.dumps([{way: WAYS[way] for way in ways}, config, T, rounds])
    # What the allocator keeps for itself is no peak of anybody's, and changes from run to run.
    own = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"} if rounds == 1 else {}
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **own})
    found: list[Any] = json.loads(done.stdout)
    return found


def table() -> str:
    """A line for each model and length: seconds, the median of their ratios to plain, MiB above plain's peak."""
    lines = ["| model | T | " + " | ".join(WAYS) + " |", "|---" * (len(WAYS) + 2) + "|"]
    for name, config in MODELS.items():
        for T in LENGTHS:
            ways = [way for way in WAYS if way != "eager" or T <= EAGER_UNTIL]
            rounds = 15 if T < 1000 else 5 if T < 5000 else 2
            seconds, held, _, _ = measure(ways, config, T, rounds)
            cells = []
            for way in WAYS:
                if way not in ways:
                    cells.append("")
                    continue
                times = zip(seconds[way], seconds["plain"], strict=True)
                cell = f"{median(seconds[way]):.3g} s, {median(x / y for x, y in times):.2f} ×"
                if way != "plain":
                    # The model alone has taken before what it takes.
                    peak = measure(["plain", way], config, T, 1)[2]
                    cell += f", {peak:.1f} MiB" + (f" ({held[way]:.1f} held)" if held[way] else "")
                cells.append(cell)
            lines.append(f"| {name} | {T:,} | " + " | ".join(cells) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)
