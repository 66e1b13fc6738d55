"""Quality and speed of a translation model: ``python -m benchmarks.translation PAIRS [MODEL]``.

PAIRS is the tab-separated file that the model was trained on; only its test pairs are looked at.
BLEU and chrF are those of sacrebleu, with one reference.  The alignment error rate (Och & Ney 2003, section 4.2) is of
test pairs aligned by hand in ``alignment.json``: for each character of the translation the numbers of its source words,
all of them sure.  What the model links a character to is the word at which it looks most.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import overt
from overt.models import Translator, corpus, load
from overt.torch.tasks import bleu


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


def main() -> None:
    translator = load(sys.argv[2] if len(sys.argv) > 2 else "en-zh")
    test = corpus.split(corpus.read([Path(sys.argv[1])]))[2]
    sources = [source for source, _ in test]
    print(f"alignment error rate: {alignment_error(translator, test):.3f}")
    for threads in (1, 2):
        overt.set_num_threads(threads)
        for beam in (1, 5):
            start = time.perf_counter()
            found = [one[0].translation for one in translator.translate(sources, beam=beam)]
            speed = len(sources) / (time.perf_counter() - start)
            print(f"beam {beam}, {threads} threads: {bleu(found, test)}, {speed:.0f} sentences/s", flush=True)


if __name__ == "__main__":
    main()
