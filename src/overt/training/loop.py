"""Training of the encoder–decoder models on parallel text, in a plain loop that can stop and go on anywhere."""

from __future__ import annotations

import hashlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from overt.errors import ArgumentError, DependencyError, FileError

try:
    import torch
    from torch.nn import functional
except ImportError:
    raise DependencyError("training needs PyTorch: pip install 'overt[torch]'") from None

from overt import layers
from overt.layers import Attention
from overt.models import Checkpoint, Transformer, Translator, checkpoint
from overt.models.initial import initial
from overt.models.vocabulary import END, PADDING, START, padded
from overt.torch.attention import attention
from overt.training.recipe import Recipe
from overt.training.tasks import Guides, Pairs, Task

STATE = "overt training 2"
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Source (B, S), its lengths (B,), target (B, T + 1) from start to end, and where to look (B, T, S), if known."""


@dataclass
class Progress:
    """Where a run stands: in epochs, in batches of this epoch, and in what it has found so far."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    tokens: int = 0
    epoch_seconds: float = 0.0
    best: float = -math.inf
    since_best: int = 0


class Crew:
    """Threads that each compute alone, on torch's operators and overt's kernels."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) if count > 1 else None

    def map(self, task: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
        """What the task gives for each number, in order."""
        return list((map if self._pool is None else self._pool.map)(task, numbers))

    def close(self) -> None:
        """Send the threads home."""
        if self._pool is not None:
            self._pool.shutdown()


class Training:
    """One run: parameters, optimiser, average and place in the data, all of which ``save`` keeps."""

    def __init__(self, task: Task, recipe: Recipe) -> None:
        self.task, self.recipe = task, recipe
        fresh = initial(task.model.shapes(), np.random.default_rng(recipe.seed))
        self.parameters = {name: torch.from_numpy(array).requires_grad_() for name, array in fresh.items()}
        self.averages = {name: tensor.detach().clone() for name, tensor in self.parameters.items()}
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=recipe.decay, fused=True
        )
        self.progress = Progress()
        self.crew = Crew(1)

    def run(
        self,
        output: Path,
        *,
        resume: bool = False,
        threads: int | None = None,
        half: bool = True,
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        """Train to the end, or until Ctrl-C, and leave the best model in ``output``.

        Beside it stand the log, one JSON object a line, and until the end what ``resume`` goes on from, at most a
        minute old.  report: is told what the log is told, and of every step.  Raises KeyboardInterrupt when stopped.
        """
        state, log = output.with_suffix(".training.safetensors"), output.with_suffix(".jsonl")
        count = threads or torch.get_num_threads()
        if resume:
            begun = self.restore(state)
            if threads not in (None, begun):
                raise ArgumentError(
                    f"{state} is of a run on {begun} threads, which goes on with as many: leave them out"
                )
            count = begun
        elif state.exists():
            raise FileError(f"{state} is of a run that has not ended: add --resume to go on, or delete it")
        self.crew = Crew(count)
        # Finds out now and not after an hour whether the folder can be written to.
        self.save(state)
        with _one_thread(), _interruptible() as stopped, _opened(log, resume) as file:

            def say(event: str, **numbers: Any) -> None:
                line = {"event": event, **numbers}
                report(line)
                if event != "step":
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                    file.flush()

            try:
                self._epochs(output, state, half, stopped, say)
            except ArgumentError:
                # Going on would fail again, and other options begin anew.
                state.unlink(missing_ok=True)
                raise
            finally:
                self.crew.close()
        state.unlink(missing_ok=True)

    def _epochs(self, output: Path, state: Path, half: bool, stopped: list[int], say: Callable[..., None]) -> None:
        progress, recipe = self.progress, self.recipe
        first = self.batches(progress.epoch)
        # Epochs differ by a few batches; the schedule only needs a length that does not change.
        total = len(self.batches(0) if progress.epoch else first) * recipe.epochs
        say("resume" if progress.step else "start", step=progress.step, steps=total, threads=self.crew.count)
        saved = time.monotonic()
        while progress.epoch < recipe.epochs:
            batches = first if progress.step == 0 or progress.batch else self.batches(progress.epoch)
            for data in batches[progress.batch :]:
                before = time.monotonic()
                loss, tokens = self.learn(data, total)
                progress.batch += 1
                progress.loss += loss * tokens
                progress.tokens += tokens
                progress.epoch_seconds += time.monotonic() - before
                if not math.isfinite(loss):
                    raise ArgumentError(f"the loss is {loss} at step {progress.step}: train with a lower --rate")
                speed = tokens / (time.monotonic() - before)
                say("step", step=progress.step, steps=total, loss=loss, speed=speed)
                if stopped or time.monotonic() - saved > 60:
                    self.save(state)
                    saved = time.monotonic()
                if stopped:
                    say("stop", step=progress.step)
                    raise KeyboardInterrupt
            progress.epoch, progress.batch = progress.epoch + 1, 0
            progress.seconds += progress.epoch_seconds
            numbers = {
                "loss": round(progress.loss / max(1, progress.tokens), 4),
                "dev_loss": round(self.dev_loss(), 4),
                "tokens_per_second": round(progress.tokens / max(1e-9, progress.epoch_seconds)),
                "seconds": round(progress.seconds, 1),
            }
            progress.loss, progress.tokens, progress.epoch_seconds = 0.0, 0, 0.0
            scored = progress.epoch % recipe.score_every == 0 or progress.epoch == recipe.epochs
            if scored:
                found = self.averaged({**self.task.card, "recipe": asdict(recipe), **numbers, "epoch": progress.epoch})
                scores = self.task.score(Translator.of(found))
                better = next(iter(scores.values())) > progress.best
                progress.since_best = 0 if better else progress.since_best + 1
                if better:
                    progress.best = next(iter(scores.values()))
                    kept = Checkpoint(
                        found.model, found.source, found.target, found.parameters, {**found.card, **scores}
                    )
                    checkpoint.save(output, kept, half=half)
                numbers |= scores
            say("epoch", epoch=progress.epoch, step=progress.step, **numbers)
            self.save(state)
            saved = time.monotonic()
            if scored and 0 < recipe.patience <= progress.since_best:
                break
        say("end", step=progress.step, best=progress.best)

    def dev_loss(self) -> float:
        """Cross-entropy per token of the averaged parameters on the dev pairs, in nats."""
        parameters = layers.nested(self.averages)
        pairs = sorted(self.task.dev, key=lambda pair: len(pair[1]))
        total = tokens = 0.0
        with torch.no_grad():
            for i in range(0, len(pairs), 100):
                source, lengths, target, _ = batch(pairs[i : i + 100])
                scores = self.task.model.logits(parameters, source, lengths, target[:, :-1], cross_attention=attention)
                wanted = target[:, 1:].flatten()
                total += float(
                    functional.cross_entropy(scores.flatten(0, 1), wanted, ignore_index=PADDING, reduction="sum")
                )
                tokens += int((wanted != PADDING).sum())
        return total / max(1.0, tokens)

    def batches(self, epoch: int) -> list[Batch]:
        """The batches of an epoch, the same whenever it is asked for: pairs of similar length together."""
        rng = np.random.default_rng((self.recipe.seed, epoch))
        pairs, guides = self.task.pairs(epoch)
        # Similar in both lengths; the blur makes batches differ from epoch to epoch.
        blur = 3 * rng.random()
        order = sorted(rng.permutation(len(pairs)), key=lambda i: ((len(pairs[i][1]) + blur) // 3, len(pairs[i][0])))
        groups: list[list[int]] = [[]]
        longest = 0
        for i in order:
            longest = max(longest, len(pairs[i][1]) + 1, len(pairs[i][0]) + 1)
            if groups[-1] and longest * (len(groups[-1]) + 1) > self.recipe.batch_tokens:
                groups.append([])
                longest = max(len(pairs[i][1]), len(pairs[i][0])) + 1
            groups[-1].append(int(i))
        rng.shuffle(groups)
        return [
            batch([pairs[i] for i in group], None if guides is None else [guides[i] for i in group]) for group in groups
        ]

    def learn(self, data: Batch, total: int) -> tuple[float, int]:
        """One step of the optimiser.  Gives the loss per token and the number of tokens."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate * schedule(self.progress.step, total, self.recipe.warmup)
        tokens = int((data[2][:, 1:] != PADDING).sum())
        # Every thread takes every n-th pair through the model, which keeps it busier than a share of every operation.
        count = min(self.crew.count, len(data[2]))
        (loss, gradients), *others = self.crew.map(lambda i: self.pull(every(count, i, data), i, tokens), range(count))
        for other, more in others:
            loss += other
            torch._foreach_add_(gradients, more)
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.recipe.clip)
        self.optimizer.step()
        self.progress.step += 1
        # The average forgets its start quickly while there is little to average.
        weight = 1 - min(self.recipe.average, (1 + self.progress.step) / (10 + self.progress.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averages.values()), list(self.parameters.values()), weight)
        return loss, tokens

    def pull(self, data: Batch, share: int, tokens: int) -> tuple[float, list[torch.Tensor]]:
        """The part of the loss per token that some pairs of a batch of so many tokens have, and its gradients."""
        source, lengths, target, guide = data
        model, recipe = self.task.model, self.recipe
        # What is dropped depends on the step and the share alone, so that going on needs no state of a generator.
        seed = np.random.SeedSequence((recipe.seed, self.progress.step, share)).generate_state(1)
        seen: list[torch.Tensor] = []
        scores = model.logits(
            layers.nested(self.parameters),
            source,
            lengths,
            target[:, :-1],
            drop=dropping(recipe.dropout, torch.Generator().manual_seed(int(seed[0]))),
            cross_attention=attention if guide is None else first_head(seen, lengths),
            **({"attention": attention} if isinstance(model, Transformer) else {}),
        )
        wanted = target[:, 1:]
        loss = functional.cross_entropy(
            scores.flatten(0, 1),
            wanted.flatten(),
            ignore_index=PADDING,
            label_smoothing=recipe.smoothing,
            reduction="sum",
        )
        goal = loss
        if guide is not None and isinstance(model, Transformer):
            looked = -(guide * seen[model.alignment_layer]).sum(dim=-1)
            goal = loss + recipe.guidance * looked[wanted != PADDING].sum()
        gradients = torch.autograd.grad(goal / tokens, list(self.parameters.values()), materialize_grads=True)
        return float(loss.detach()) / tokens, list(gradients)

    def averaged(self, card: Mapping[str, Any]) -> Checkpoint:
        """The model as it would be used: its parameters averaged over the last steps."""
        arrays = {name: tensor.numpy() for name, tensor in self.averages.items()}
        return Checkpoint(self.task.model, self.task.source, self.task.target, arrays, card)

    def save(self, path: Path) -> None:
        """Everything that going on needs, in one file."""
        arrays = {}
        for name, tensor in self.parameters.items():
            arrays[f"parameters/{name}"] = tensor.detach().numpy()
            arrays[f"averages/{name}"] = self.averages[name].numpy()
            for key, value in self.optimizer.state.get(tensor, {}).items():
                arrays[f"{key}/{name}"] = value.numpy()
        described = {"progress": asdict(self.progress), "identity": self.identity, "threads": self.crew.count}
        checkpoint.write(path, arrays, STATE, described)

    def restore(self, path: Path) -> int:
        """Stand where ``save`` was called, on how many threads.  Raises FileError if the file is of another run."""
        arrays, described = checkpoint.read(path, STATE)
        if described.get("identity") != self.identity:
            raise FileError(f"{path} is of a run with other data or options: repeat its command, or delete the file")
        with torch.no_grad():
            for name, tensor in self.parameters.items():
                tensor.copy_(torch.from_numpy(arrays[f"parameters/{name}"]))
                self.averages[name].copy_(torch.from_numpy(arrays[f"averages/{name}"]))
                self.optimizer.state[tensor] = {
                    key: torch.from_numpy(arrays[f"{key}/{name}"])
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"{key}/{name}" in arrays
                }
        self.progress = Progress(**described["progress"])
        return int(described["threads"])

    @cached_property
    def identity(self) -> str:
        """What makes a run this run and no other; reading all pairs for it takes seconds."""
        task = self.task
        said = [
            asdict(self.recipe),
            asdict(task.model),
            task.source.described(),
            task.target.described(),
            task.pairs(0)[0],
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread inside each of torch's operators: others, that wait for work, would take it from the crew."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """A list that Ctrl-C adds to, so that no step is left half done; the second one interrupts at once."""
    stopped: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, frame: Any) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _opened(log: Path, resume: bool) -> Iterator[IO[str]]:
    try:
        file = log.open("a" if resume else "w", encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {log}: {error.strerror or error}") from None
    with file:
        yield file


def batch(pairs: Pairs, guides: Guides | None = None) -> Batch:
    """Pairs of token numbers as arrays; the source ends with ``END``, the target also begins with ``START``."""
    source, lengths = padded([[*numbers, END] for numbers, _ in pairs])
    target, _ = padded([[START, *numbers, END] for _, numbers in pairs])
    guide = None
    if guides is not None:
        wide = np.zeros((len(pairs), target.shape[1] - 1, source.shape[1]), np.float32)
        for row, one in zip(wide, guides, strict=True):
            T, S = one.shape
            row[:T, :S] = one
            row[: T + 1, S] = 1 - row[: T + 1].sum(axis=-1)
        guide = torch.from_numpy(wide)
    return torch.from_numpy(source), torch.from_numpy(lengths), torch.from_numpy(target), guide


def every(count: int, first: int, data: Batch) -> Batch:
    """Each of so many pairs of a batch, from the first on."""
    source, lengths, target, guide = data
    part = slice(first, None, count)
    return source[part], lengths[part], target[part], None if guide is None else guide[part]


def first_head(seen: list[torch.Tensor], lengths: torch.Tensor) -> Attention:
    """``overt.attention`` that also appends the logarithms (B, T, S) of its first head's weights to a list."""

    def look(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
        scores = q[:, 0] @ k[:, 0].mT / math.sqrt(q.shape[-1])
        # A finite number, because what is hidden is later multiplied by zero.
        hidden = torch.arange(k.shape[-2]) >= lengths[:, None, None]
        seen.append(scores.masked_fill(hidden, -1e4).log_softmax(dim=-1))
        return attention(q, k, v, **options)

    return look


def schedule(step: int, total: int, warmup: float) -> float:
    """Share of the peak rate: up in a line, then down to zero along a cosine."""
    first = max(1.0, warmup * total)
    if step < first:
        return (step + 1) / first
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - first) / max(1.0, total - first))))


def dropping(rate: float, generator: torch.Generator) -> Callable[[torch.Tensor], torch.Tensor]:
    """Dropout from random bytes: torch's own draws a number per element, which is a quarter of a step here."""
    threshold = round(rate * 256)
    if not threshold:
        return layers.keep

    def drop(x: torch.Tensor) -> torch.Tensor:
        words = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 8),), generator=generator)
        bytes_ = words.view(torch.uint8)[: x.numel()].view(x.shape)
        return x * ((bytes_ >= threshold) * (256 / (256 - threshold)))

    return drop
