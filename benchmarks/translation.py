"""Quality and speed of a translation model: ``python -m benchmarks.translation PAIRS [MODEL]``.

PAIRS is the tab-separated file that the model was trained on; only its test pairs are looked at.
BLEU and chrF are those of sacrebleu, with one reference.  The alignment error rate (Och & Ney 2003, section 4.2) is of
test pairs aligned by hand in ``alignment.json``: for each character of the translation the numbers of its source words,
all of them sure.  What the model links a character to is the word at which it looks most.

Speed is that of whole texts, beside CTranslate2 with the same weights in float32, where that is installed: from text to
text, the same beam, batches of as many tokens, turn by turn in one process.  Nothing is divided by a length, of which
the two think differently, so both should find the same translations, unless one is longer than overt's limit.  On one
thread it is the processor's time that counts, on two that of the clock on the wall; either then translates two batches
at once, on one thread each.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from threadpoolctl import threadpool_limits

import overt
from overt.errors import ArgumentError, DependencyError
from overt.models import Translator, load
from overt.models import ctranslate2 as export
from overt.models.translator import BATCH
from overt.training import corpus
from overt.training.tasks import bleu


def alignment_error(translator: Translator, test: list[corpus.Text]) -> float:
    """1 − 2 |found ∩ sure| / (|found| + |sure|), of the links of all pairs together."""
    by_hand = {one["pair"]: one["links"] for one in json.loads(Path(__file__).with_name("alignment.json").read_text())}
    found_count = sure_count = both = 0
    for source, target in test:
        links = by_hand.pop(hashlib.sha256(f"{source}\t{target}".encode()).hexdigest()[:16], None)
        if links is None:
            continue
        sure = {(t, int(s)) for t, said in enumerate(links.split()) if said != "-" for s in said.split(",")}
        one = translator.align(source, target)
        place = translator.checkpoint.source.words(one.source_tokens)
        found = {(t, place[int(row.argmax())]) for t, row in enumerate(one.alignment)}
        found_count, sure_count, both = found_count + len(found), sure_count + len(sure), both + len(found & sure)
    if by_hand:
        sys.exit(f"{len(by_hand)} of the pairs aligned by hand are not in the file")
    return 1 - 2 * both / (found_count + sure_count)


def compare(translator: Translator, sources: list[str]) -> None:
    """Sentences a second, the median of three rounds each."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            export.save(Path(folder, "model"), translator.checkpoint)
        except (ArgumentError, DependencyError) as error:
            print(f"no comparison: {error}")
        overt.set_num_threads(1)
        for threads in (1, 2):
            clock = time.process_time if threads == 1 else time.perf_counter
            contenders = {"overt": partial(by_overt, threads, translator, sources)}
            if Path(folder, "model").exists():
                import ctranslate2

                peer = ctranslate2.Translator(
                    str(Path(folder, "model")), compute_type="float32", inter_threads=threads, intra_threads=1
                )
                contenders["CTranslate2"] = partial(by_ctranslate2, peer, translator, sources)
            for beam in (1, 5):
                found: dict[str, list[str]] = {}
                speeds: dict[str, list[float]] = {name: [] for name in contenders}
                with threadpool_limits(1):
                    for _ in range(3):
                        for name, call in contenders.items():
                            start = clock()
                            found[name] = call(beam)
                            speeds[name].append(len(sources) / (clock() - start))
                line = ", ".join(f"{name} {median(several):.0f}" for name, several in speeds.items())
                if len(found) > 1:
                    ratio = median(ours / theirs for ours, theirs in zip(*speeds.values(), strict=True))
                    same = sum(ours == theirs for ours, theirs in zip(*found.values(), strict=True))
                    line += f", ratio {ratio:.2f}, {same} of {len(sources)} translations the same"
                print(f"beam {beam}, {threads} threads, sentences/s: {line}", flush=True)


def by_overt(threads: int, translator: Translator, sources: list[str], beam: int) -> list[str]:
    translate = partial(translator.translate, beam=beam, penalty=0.0, replace_unknown=False)
    found = [""] * len(sources)
    with ThreadPoolExecutor(threads) as pool:
        for i, part in enumerate(pool.map(translate, [sources[i::threads] for i in range(threads)])):
            found[i::threads] = [one[0].translation for one in part]
    return found


def by_ctranslate2(peer: Any, translator: Translator, sources: list[str], beam: int) -> list[str]:
    found = peer.translate_batch(
        [translator.split(source) for source in sources],
        beam_size=beam,
        length_penalty=0,
        max_batch_size=BATCH,
        batch_type="tokens",
    )
    return [translator.checkpoint.target.join(one.hypotheses[0]) for one in found]


def main() -> None:
    translator = load(sys.argv[2] if len(sys.argv) > 2 else "en-zh")
    test = corpus.split(corpus.read([Path(sys.argv[1])]))[2]
    sources = [source for source, _ in test]
    print(f"alignment error rate: {alignment_error(translator, test):.3f}")
    for beam in (1, 5):
        found = [one[0].translation for one in translator.translate(sources, beam=beam)]
        print(f"beam {beam}: {bleu(found, test)}", flush=True)
    compare(translator, sources)


if __name__ == "__main__":
    main()
