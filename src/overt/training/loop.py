"""Training of the encoder–decoder models on parallel text, in a plain loop that can stop and go on anywhere."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from overt.errors import ArgumentError, DependencyError, DtypeError, FileError, ShapeError

try:
    import torch
    from torch.nn import functional
except ImportError:
    raise DependencyError("training needs PyTorch: pip install 'overt[torch]'") from None

from overt import layers
from overt.models import Checkpoint, Transformer, Translator, checkpoint
from overt.models.initial import initial
from overt.models.vocabulary import PADDING
from overt.torch.attention import attention
from overt.training.recipe import Recipe
from overt.training.signals import Stop, stopping
from overt.training.steps import Batch, Workers, batch, dropping, every, first_head, schedule
from overt.training.tasks import Task
from overt.training.team import Team
from overt.writing import replaced

STATE = "overt training 3"


@dataclass
class Progress:
    """Where a run stands: in epochs, in batches of this epoch, and in what it has found so far.

    kept: the scores of the epoch whose model is kept, and why.  wrote: what that model made of the dev pairs.
    history: the lines of the log.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    tokens: int = 0
    epoch_seconds: float = 0.0
    kept: dict[str, Any] = field(default_factory=dict)
    wrote: list[str] = field(default_factory=list)
    since_kept: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Measured:
    """What an epoch is worth: its numbers, and where it was scored, its scores, what it wrote, and why it is kept."""

    numbers: dict[str, Any]
    scored: bool
    scores: dict[str, float]
    wrote: list[str]
    why: str


def files(output: Path) -> tuple[Path, Path]:
    """Where the state and the log of a run stand, beside its output."""
    return output.with_suffix(".training.safetensors"), output.with_suffix(".jsonl")


def check_output(output: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether a run goes on, or begins.  Raises FileError for files in its way, and where there is nothing to resume.

    Both together go on where a run has not ended, and else begin anew.
    """
    state, log = files(output)
    if resume and state.exists():
        return True
    if overwrite:
        return False
    if resume and output.exists():
        raise FileError(f"{output} is finished: there is nothing to --resume; --overwrite trains it anew")
    if resume:
        raise FileError(f"there is nothing to --resume: {state} does not exist")
    if state.exists():
        raise FileError(f"{state} is of a run that has not ended: --resume goes on, --overwrite begins anew")
    for path in (output, log):
        if path.exists() and not (path == log and _failed(log)):
            raise FileError(
                f"{path} exists: --overwrite replaces it, --resume goes on with a run that has not ended; "
                "or choose another name"
            )
    return False


class Training:
    """One run: parameters, optimiser, average and place in the data, all of which ``save`` keeps.

    shares: of a batch, one for each thread of all processes that began the run; it keeps them, whoever goes on with it.
    """

    def __init__(self, task: Task, recipe: Recipe, team: Team | None = None) -> None:
        self.task, self.recipe, self.team = task, recipe, team or Team()
        fresh = initial(task.model.shapes(), np.random.default_rng(recipe.seed))
        self.parameters = {name: torch.from_numpy(array).requires_grad_() for name, array in fresh.items()}
        self.averages = {name: tensor.detach().clone() for name, tensor in self.parameters.items()}
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=recipe.decay, fused=True
        )
        self.progress = Progress()
        # The step that was last written down, and when.
        self.saved: int | None = None
        self.saved_at = time.monotonic()
        self.workers, self.shares = Workers(1), 1

    def run(
        self,
        output: Path,
        *,
        resume: bool = False,
        overwrite: bool = False,
        threads: int | None = None,
        half: bool = True,
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        """Train to the end, or until Ctrl-C, and leave the best model in ``output``.

        Beside it stand the log, one JSON object a line, and until the end what ``resume`` goes on from, at most a
        minute old.  report: is told what the log is told, and of every step.  Raises KeyboardInterrupt when stopped by
        Ctrl-C, SystemExit by SIGTERM, and FileError for files that are there already, but for ``overwrite``.
        """
        state, log = files(output)
        team = self.team
        # Others may find there what the first process has just written.
        resumes = bool(team.any(team.leads and check_output(output, resume=resume, overwrite=overwrite)))
        self.shares = (threads or torch.get_num_threads()) * team.size
        if resumes:
            begun = self.restore(state)
            if threads is not None and threads * team.size != begun:
                raise ArgumentError(
                    f"{state} is of a run on {begun} threads, which goes on with as many: leave them out"
                )
            self.shares = begun
        self.workers = Workers(-(-self.shares // team.size))
        team.any(0)
        # Finds out now and not after an hour whether the folder can be written to.
        self.save(state)
        with _one_thread(), stopping() as stop, _opened(log, self.progress.history, team) as file:

            def say(event: str, **numbers: Any) -> None:
                if file is None:
                    return
                line = {"event": event, **numbers}
                report(line)
                if event != "step":
                    self.progress.history.append(line)
                    file.write(_line(line))
                    file.flush()

            try:
                self._epochs(output, state, half, stop, say)
            except ArgumentError as error:
                say("failed", step=self.progress.step, why=str(error))
                # Going on would fail again, and other options begin anew.
                if team.leads:
                    state.unlink(missing_ok=True)
                raise
            finally:
                self.workers.close()
        if team.leads:
            state.unlink(missing_ok=True)

    def _epochs(self, output: Path, state: Path, half: bool, stop: Stop, say: Callable[..., None]) -> None:
        progress, recipe = self.progress, self.recipe
        first = self.batches(progress.epoch)
        # Epochs differ by a few batches; the schedule only needs a length that does not change.
        total = len(self.batches(0) if progress.epoch else first) * recipe.epochs
        begun = {"step": progress.step, "steps": total, "threads": self.shares}
        if progress.step:
            say("resume", **begun)
        else:
            say("start", **begun, **self.task.card, limit=asdict(self.task.limit))

        def leave() -> NoReturn:
            say("stop", step=progress.step)
            self.save(state)
            stop.leave()

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
                # All of them stop after the same step.
                if asked := self.team.any(stop.asked):
                    stop.asked = asked
                    leave()
                if time.monotonic() - self.saved_at > 60:
                    self.save(state)
            # Measuring changes nothing, so that it can be interrupted anywhere, and is done again.
            try:
                with stop.at_once():
                    found = self._measured() if self.team.leads else _Measured({}, False, {}, [], "")
            except (KeyboardInterrupt, SystemExit):
                leave()
            self._close_epoch(output, half, found, say)
            self.save(state)
            # What the first process has measured decides for all.
            if self.team.any(found.scored and 0 < recipe.patience <= progress.since_kept):
                break
        say("end", step=progress.step, kept=progress.kept)

    def _measured(self) -> _Measured:
        """What the epoch that has just ended is worth."""
        progress, recipe = self.progress, self.recipe
        numbers: dict[str, Any] = {
            "loss": round(progress.loss / max(1, progress.tokens), 4),
            "dev_loss": round(self.dev_loss(), 4) if self.task.dev else None,
            "tokens_per_second": round(progress.tokens / max(1e-9, progress.epoch_seconds)),
            "seconds": round(progress.seconds + progress.epoch_seconds, 1),
        }
        epoch = progress.epoch + 1
        if epoch % recipe.score_every and epoch != recipe.epochs:
            return _Measured(numbers, False, {}, [], "")
        scores, wrote = self.task.score(Translator.of(self.averaged({})))
        kept = progress.kept
        if not self.task.dev:
            why = "the last: there are no dev pairs to choose by"
        elif not kept:
            why = "the first that was scored, and none since was better"
        elif gain := self.task.gain(wrote, progress.wrote):
            why = f"a significantly better score than epoch {kept['epoch']}" if gain > 0 else ""
        else:
            why = f"a lower dev loss than epoch {kept['epoch']}" if numbers["dev_loss"] < kept["dev_loss"] else ""
        return _Measured(numbers, True, scores, wrote, why)

    def _close_epoch(self, output: Path, half: bool, found: _Measured, say: Callable[..., None]) -> None:
        """Keep the model if it is to be kept, and go on to the next epoch."""
        progress = self.progress
        progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.seconds += progress.epoch_seconds
        progress.loss, progress.tokens, progress.epoch_seconds = 0.0, 0, 0.0
        if found.why:
            chosen = {"epoch": progress.epoch, **found.numbers, **found.scores, "why": found.why}
            card = {**self.task.card, "recipe": asdict(self.recipe), **chosen}
            checkpoint.save(output, self.averaged(card), half=half)
            progress.kept, progress.wrote = chosen, found.wrote
        if found.scored:
            progress.since_kept = 0 if found.why else progress.since_kept + 1
        say("epoch", epoch=progress.epoch, step=progress.step, **found.numbers, **found.scores)

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
        count = min(self.shares, len(data[2]))
        own = self.workers.map(
            lambda i: self.pull(every(count, i, data), i, tokens), range(self.team.rank, count, self.team.size)
        )
        loss, gradients = self.team.sum(own, count, list(self.parameters.values()))
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
        return Checkpoint(self.task.model, self.task.source, self.task.target, arrays, card, self.task.limit)

    def save(self, path: Path) -> None:
        """Everything that going on needs, in one file, which the first process writes."""
        if self.team.leads:
            self._write(path)
        self.saved, self.saved_at = self.progress.step, time.monotonic()

    def _write(self, path: Path) -> None:
        arrays = {}
        for name, tensor in self.parameters.items():
            arrays[f"parameters/{name}"] = tensor.detach().numpy()
            arrays[f"averages/{name}"] = self.averages[name].numpy()
            for key, value in self.optimizer.state.get(tensor, {}).items():
                arrays[f"{key}/{name}"] = value.numpy()
        described = {"progress": asdict(self.progress), "identity": self.identity, "threads": self.shares}
        checkpoint.write(path, arrays, STATE, described)

    def restore(self, path: Path) -> int:
        """Stand where ``save`` was called, on how many threads.  Raises FileError if the file is of another run."""
        try:
            arrays, described = checkpoint.read(path, STATE)
            if described["identity"] != self.identity:
                raise FileError(f"{path} is of a run with other data or options: repeat its command")
            threads, progress = int(described["threads"]), Progress(**described["progress"])
            for name, value in asdict(Progress()).items():
                if not isinstance(getattr(progress, name), type(value)):
                    raise DtypeError(f"{name} is no {type(value).__name__}")
            found = {
                name: {
                    key: torch.from_numpy(arrays[f"{key}/{name}"])
                    for key in ("parameters", "averages", "step", "exp_avg", "exp_avg_sq")
                    if key in ("parameters", "averages") or f"{key}/{name}" in arrays
                }
                for name in self.parameters
            }
            for name, tensor in self.parameters.items():
                for key, value in found[name].items():
                    if key != "step" and value.shape != tensor.shape:
                        raise ShapeError(f"{key}/{name} has shape {tuple(value.shape)}")
        except FileError as error:
            raise FileError(f"{error}; --overwrite begins anew") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(f"{path} does not describe a run ({error}); --overwrite begins anew") from None
        with torch.no_grad():
            for name, tensor in self.parameters.items():
                tensor.copy_(found[name].pop("parameters"))
                self.averages[name].copy_(found[name].pop("averages"))
                self.optimizer.state[tensor] = found[name]
        self.progress = progress
        return threads

    @cached_property
    def identity(self) -> str:
        """What makes a run this run and no other; reading all pairs for it takes seconds."""
        task = self.task
        said = [
            asdict(self.recipe),
            asdict(task.model),
            task.source.described(),
            task.target.described(),
            asdict(task.limit),
            task.pairs(0)[0],
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread inside each of torch's operators: others, that wait for work, would take it from the workers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _opened(log: Path, history: list[dict[str, Any]], team: Team) -> Iterator[IO[str] | None]:
    """The log, as it was when the state was saved: what was written since is done again.  One process writes it."""
    if not team.leads:
        yield None
        return
    with replaced(log) as file:
        file.write("".join(map(_line, history)).encode())
    try:
        appended = log.open("a", encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {log}: {error.strerror or error}") from None
    with appended:
        yield appended


def _failed(log: Path) -> bool:
    """Whether a log ends with a run that failed, which made no model."""
    try:
        last = json.loads(log.read_text("utf-8").splitlines()[-1])
    except (OSError, ValueError, IndexError, RecursionError):
        return False
    return isinstance(last, dict) and last.get("event") == "failed"


def _line(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False) + "\n"
