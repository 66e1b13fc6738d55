"""A model and what it reads, from a folder on disk or from somebody's own code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from overt.errors import ArgumentError, DependencyError, FileError, OvertError
from overt.recorder.operations import drained


@dataclass(frozen=True, eq=False)
class Source:
    """A model, its arguments, and the tokenizer that made them, if there is one."""

    model: nn.Module
    inputs: dict[str, Any]
    positional: tuple[Any, ...] = ()
    tokenizer: Any = None

    @property
    def both(self) -> bool:
        """Whether it is an encoder–decoder."""
        return bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", False))

    def words(self, ids: Tensor) -> list[str]:
        """Each token as the text that it stands for; as the tokenizer's own spelling where that is no text."""
        found = []
        for i in ids.tolist():
            word = self.tokenizer.decode([i])
            spelled = self.tokenizer.convert_ids_to_tokens(i)
            found.append(str(spelled) if "\ufffd" in word or not word else word)
        return found

    def run(self, generate: int | None) -> Tensor | None:
        """Run it once, or let it write tokens (B, N), which are given back with what they follow."""
        model: Any = self.model
        if generate and not hasattr(model, "generate"):
            raise ArgumentError(f"{type(model).__name__} cannot generate: leave out --generate")
        try:
            with torch.no_grad():
                if not generate:
                    model(*self.positional, **self.inputs)
                    return None
                options: dict[str, Any] = {"max_new_tokens": generate, "do_sample": False}
                written: Tensor = model.generate(*self.positional, **self.inputs, **options)
                return written
        except (OvertError, MemoryError):
            raise
        except Exception as error:
            raise ArgumentError(f"{type(model).__name__} cannot read this: {self._cause(error, generate)}") from error

    def _cause(self, error: Exception, generate: int | None) -> str:
        """What is wrong with tokens, if it can be told, else the error."""
        ids = self.inputs.get("input_ids")
        if self.tokenizer is None or not isinstance(ids, Tensor) or not ids.numel():
            return _named(error)
        config = getattr(self.model, "config", None)
        known, places = (getattr(config, name, None) for name in ("vocab_size", "max_position_embeddings"))
        highest, length = int(ids.max()), ids.shape[1] + (generate or 0)
        if known is not None and highest >= known:
            return f"it knows {known} tokens, and the tokenizer gives token {highest}: they do not belong together"
        if isinstance(error, IndexError) and places is not None and length > places:
            return f"it has {places} positions, and the text with what is to be written {length} tokens: shorten it"
        return f"{_named(error)} (it got {', '.join(self.inputs)}; module:factory can give it more)"


def folder(path: Path, text: str) -> Source:
    """A Hugging Face folder: weights in safetensors alone, and never code that lies in it."""
    if not path.is_dir():
        raise FileError(f"{path} is no folder: give a model that is on disk, or module:factory")
    if not (path / "config.json").is_file():
        raise FileError(f"{path} has no config.json: give a folder that save_pretrained wrote")
    if not any(path.glob("*.safetensors")):
        raise FileError(f"{path} has no weights in safetensors, and no others are read: save the model with them")
    try:
        transformers: Any = import_module("transformers")
    except ImportError:
        raise DependencyError("a Hugging Face folder needs transformers: pip install transformers") from None
    # Nothing is asked of any network.
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    kind = _class(transformers, path)
    if (reads := getattr(kind, "main_input_name", "input_ids")) != "input_ids":
        raise ArgumentError(f"{kind.__name__} reads {reads}, not text: give module:factory")
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, **own)
    except Exception as error:  # Each tokenizer fails in its own way.
        # Some say first that there follows what they have tried.
        why = _first(error) if not _first(error).endswith(":") else "save it there with tokenizer.save_pretrained"
        raise FileError(f"{path} has no tokenizer that can be read: {why}") from None
    own |= {"ignore_mismatched_sizes": True, "output_loading_info": True}
    try:
        model, info = kind.from_pretrained(path, use_safetensors=True, dtype="auto", **own)
    except Exception as error:
        raise FileError(f"the model in {path} cannot be read: {_first(error)}") from None
    # What is not in the file would be drawn, and nobody would see it.
    sizes = info["mismatched_keys"]
    lacks = sorted(f"{name}, which is {tuple(x)} there and not {tuple(y)}" for name, x, y in sizes)
    lacks = lacks or sorted(info["missing_keys"])
    if lacks:
        some = "; ".join(lacks[:3]) + (f"; and {len(lacks) - 3} more" if len(lacks) > 3 else "")
        raise FileError(f"the weights in {path} are not all those of a {type(model).__name__}: they lack {some}")
    model.eval()
    inputs = tokenizer(text, return_tensors="pt")
    if not inputs["input_ids"].numel():
        raise ArgumentError("the text has no tokens: give one that is not empty")
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ArgumentError(f"{type(model).__name__} reads {model.main_input_name}, not text: give module:factory")
    taken = signature(model.forward).parameters
    inputs = {name: x for name, x in inputs.items() if name in taken}
    return Source(model, inputs, tokenizer=tokenizer)


def _class(transformers: Any, path: Path) -> Any:
    """The class that the configuration names, if the library has it."""
    try:
        named = json.loads((path / "config.json").read_text("utf-8")).get("architectures") or []
    except (OSError, ValueError, AttributeError) as error:
        raise FileError(f"{path / 'config.json'} cannot be read: {_first(error)}") from None
    for name in named:
        known = getattr(transformers, name, None) if isinstance(name, str) else None
        if isinstance(known, type) and issubclass(known, nn.Module):
            return known
    return transformers.AutoModel


def factory(name: str, text: str | None) -> Source:
    """module:factory, a function that gives a model and its arguments; it gets the text, if there is one."""
    module, _, function = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # As python -m would look for it.
        sys.path.insert(0, here)
    try:
        make = drained(getattr(import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError(f"{name} cannot be imported: {_first(error)}") from None
    except Exception as error:
        raise ArgumentError(f"{name} cannot be imported: {_named(error)}") from error
    try:
        made = make() if text is None else make(text)
    except Exception as error:
        raise ArgumentError(f"{name} failed: {_named(error)}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[0], nn.Module):
        raise ArgumentError(f"{name} must return (model, inputs), or a tokenizer too, and not {type(made).__name__}")
    model, inputs, tokenizer = (*made, None)[:3]
    if isinstance(inputs, Mapping):
        return Source(model, dict(inputs), tokenizer=tokenizer)
    return Source(model, {}, tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), tokenizer)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {_first(error)}"


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
