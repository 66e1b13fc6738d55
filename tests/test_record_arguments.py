"""overt.record and a recording, asked for what has no meaning: one exception each, which says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import overt
from overt.errors import ArgumentError, DtypeError, FileError
from test_record_own import T, X, build, plain

WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a number of layers": ({"layers": 5}, DtypeError, "layers must be a glob of names .* not 5"),
    "several numbers": ({"layers": [0, 1]}, DtypeError, "layers must be a glob of names"),
    "True for layers": ({"layers": True}, DtypeError, "layers must be a glob of names"),
    "a module": ({"layers": nn.Linear(2, 2)}, DtypeError, "layers must be a glob of names"),
    "a class": ({"layers": nn.Linear}, DtypeError, "layers must be a glob of names .* not the class Linear"),
    "a number to keep": ({"keep": 5}, ArgumentError, "keep must be one of"),
    "a text for top": ({"top": "a"}, ArgumentError, "top must be a whole number"),
    "a text for limit": ({"limit": "1"}, ArgumentError, "limit must be a whole number"),
    "a number for a folder": ({"keep": "disk", "folder": 5}, DtypeError, "folder must be the name of a folder, not 5"),
    "a text for check": ({"check": "no"}, DtypeError, "check says whether weights are compared, .* not 'no'"),
    "a number to compute with": ({"compute": 5}, ArgumentError, 'compute must be "model" or "overt"'),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_told_by_their_names(name: str) -> None:
    wrong, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        overt.record(build(plain), **wrong)


ASKED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a number for a name": (lambda rec: rec[5], ArgumentError, "nothing was recorded under 5; the names are layers.0"),
    "a slice for a name": (lambda rec: rec[:2], ArgumentError, "nothing was recorded under slice"),
    "a list for a name": (lambda rec: rec.calls(["layers.0"]), ArgumentError, "nothing was recorded under "),
    "a number for names": (
        lambda rec: rec.mean(5),
        DtypeError,
        "names must be a glob of names, several names, or None",
    ),
    "layers of a mean": (
        lambda rec: rec.mean(layers=5),
        DtypeError,
        "layers says whether the mean is taken over layers",
    ),
    "heads of a mean": (lambda rec: rec.mean(heads="a"), DtypeError, "heads says whether the mean is taken over heads"),
    "a number for special tokens": (
        lambda rec: rec.measures(special=5),
        DtypeError,
        "special must be the ids .* not 5",
    ),
    "a text for them": (lambda rec: rec.measures(special="ab"), DtypeError, "special must be the ids .* not 'ab'"),
    "texts for them": (lambda rec: rec.measures(special=["a"]), DtypeError, "special must be integers"),
    "a share of text": (lambda rec: rec.rollout(residual="a"), ArgumentError, "residual is the share .* not 'a'"),
    "no share": (lambda rec: rec.rollout(residual=None), ArgumentError, "residual is the share"),
    "keys without labels": (lambda rec: rec.mass([0]), DtypeError, "keys must have labels"),
    "no list of tokens": (lambda rec: rec.labelled(5), DtypeError, "tokens must be a list of strings, not 5"),
    "numbers for tokens": (lambda rec: rec.labelled([1] * T), DtypeError, "tokens must be a list of strings"),
    "a number for a file": (lambda rec: rec.save(5), DtypeError, "path must be the name of a file"),
    "a number for a page": (lambda rec: rec.page(5), DtypeError, "path must be the name of a file"),
    "a number for a title": (lambda rec: rec.page("a.html", title=5), DtypeError, "title must be text, not int"),
    "a number to load": (lambda rec: overt.torch.record.load(5), DtypeError, "path must be the name of a file"),
}


@pytest.mark.parametrize("name", ASKED)
def test_wrong_questions_are_told_by_their_names(name: str) -> None:
    ask, error, message = ASKED[name]
    model = build(plain)
    with torch.no_grad(), overt.record(model) as rec:
        model(X)
    assert [0] not in rec
    with pytest.raises(error, match=message):
        ask(rec)


def test_files_of_something_else_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    np.savez(tmp_path / "b.npz", a=np.ones(3))
    np.savez(tmp_path / "c.npz", recording=np.frombuffer(b"5", np.uint8))
    np.savez(tmp_path / "d.npz", recording=np.frombuffer(b'{"format": 1, "without": [], "entries": 5}', np.uint8))
    for path in (tmp_path, *sorted(tmp_path.iterdir()), tmp_path / "none.npz"):
        with pytest.raises(FileError, match=re.escape(str(path))):
            overt.torch.record.load(path)
