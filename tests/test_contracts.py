"""What is agreed on beside the numbers: packed rows, samples first, registered parameters, as many values as keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

HEAD = "import math\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n"
REMEMBERED = '''
class Memorised(nn.Module):
    """x (B, T, C), memory (B, S, C)"""

    def __init__(self, width=24):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.last = None

    def forward(self, x, memory):
        if self.last is None or self.last[0] is not memory:
            k = self.k(memory)
            self.last = memory, {what}
        {then}
        return w @ memory
'''
SCORED = "(self.q(x) @ k.mT / math.sqrt(k.shape[-1])).softmax(-1)"


@pytest.mark.parametrize(
    ("what", "then", "expected"),
    [(SCORED, "w = self.last[1]", {"cache_key": "mistake"}), ("k", f"k = self.last[1]; w = {SCORED}", {})],
)
def test_what_is_kept_for_the_same_keys(
    session: Session, tmp_path: Path, what: str, then: str, expected: dict[str, str]
) -> None:
    assert told(session, tmp_path, REMEMBERED.format(what=what, then=then), "Memorised") == expected


PACKED = '''
class Attention(nn.Module):
    """{says}"""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.{name} = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        {lines}
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, w))
'''
BLOCKS = "q, k, v = self.{name}(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)"
BY_HEAD = "q, k, v = self.{name}(x).view(b, t, self.heads, -1).transpose(1, 2).chunk(3, -1)"
TURNED = "k, q, v = self.{name}(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)"
PER_HEAD = "x (B, T, C). The rows of the weight are ordered (heads, 3, head_dim): per head its q, its k and its v."


def told(session: Session, folder: Path, code: str, name: str, **options: object) -> dict[str, str]:
    file = folder / "candidate.py"
    file.write_text(HEAD + code)
    report = examine(session, f"{file}:{name}", sizes={"T": 5, "S": 7, "W": 24, "H": 3}, **options)  # type: ignore[arg-type]
    return {f.id: f.kind for f in report.findings if f.kind != "risk"}


@pytest.mark.parametrize(
    ("name", "says", "line", "expected"),
    [
        ("qkv", "x (B, T, C)", BLOCKS, {}),
        ("pqr", "x (B, T, C)", TURNED, {}),
        ("pqr", "x (B, T, C)", BY_HEAD, {}),
        ("query_key_value", "x (B, T, C)", BY_HEAD, {}),
        ("pqr", PER_HEAD, BY_HEAD, {}),
        ("pqr", PER_HEAD, BLOCKS, {"qkv_order": "mistake"}),
        ("qkv", "x (B, T, C)", TURNED, {"qkv_order": "mistake"}),
        ("qkv", "x (B, T, C)", BY_HEAD, {"qkv_order": "convention"}),
    ],
)
def test_packed_rows_lie_as_is_said(
    session: Session, tmp_path: Path, name: str, says: str, line: str, expected: dict[str, str]
) -> None:
    code = PACKED.format(says=says, name=name, lines=line.format(name=name))
    assert told(session, tmp_path, code, "Attention") == expected


OF_A_LIBRARY = '''
class Encoder(nn.Module):
    """{says}"""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.attend = nn.MultiheadAttention(width, heads{option})

    def forward(self, x):
        h = self.up(x){before}
        return self.attend(h, h, h, need_weights=False)[0]{after}
'''
TURN = ".transpose(0, 1)"


@pytest.mark.parametrize(
    ("says", "option", "turn", "expected"),
    [
        ("frames: (batch, time, width)", "", "", {"batch_first": "mistake"}),
        ("frames: (batch, time, width)", ", batch_first=True", TURN, {"batch_first": "mistake"}),
        ("frames: (batch, time, width)", ", batch_first=True", "", {}),
        ("frames: (batch, time, width)", "", TURN, {}),
        ("frames: (time, batch, width)", "", "", {}),
        ("sequence first, as in nn.MultiheadAttention", "", "", {}),
        ("An encoder.", "", "", {"batch_first": "convention"}),
    ],
)
def test_samples_lie_first_where_it_is_said(
    session: Session, tmp_path: Path, says: str, option: str, turn: str, expected: dict[str, str]
) -> None:
    code = OF_A_LIBRARY.format(says=says, option=option, before=turn, after=turn)
    assert told(session, tmp_path, code, "Encoder") == expected


LISTED = '''
class Heads(nn.Module):
    """x (B, T, C)"""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.some = {kept}([nn.Linear(width, 3 * width // heads) for _ in range(heads)])
        self.register_buffer("factor", torch.tensor(1.0))

    def forward(self, x):
        each = [f(x).chunk(3, -1) for f in self.some]
        return torch.cat([(q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v for q, k, v in each], -1)
'''


@pytest.mark.parametrize(("kept", "expected"), [("list", {"python_list": "mistake"}), ("nn.ModuleList", {})])
def test_parameters_of_a_plain_list_are_not_registered(
    session: Session, tmp_path: Path, kept: str, expected: dict[str, str]
) -> None:
    assert told(session, tmp_path, LISTED.format(kept=kept), "Heads") == expected


FUNCTION = '''
def attend(q, k, v):
    """q (B, T, D), k and v (B, S, D)"""
    {line}
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def step(query, states, more):
    """query (B, T, D), states (B, S, D), more (B, T, D)"""
    return (query @ states.mT / math.sqrt(query.shape[-1])).softmax(-1) @ states + more
'''
CUT = "n = min(k.shape[-2], v.shape[-2]); k, v = k[..., :n, :], v[..., :n, :]"


@pytest.mark.parametrize(
    ("name", "line", "lost"), [("attend", "pass", False), ("attend", CUT, True), ("step", "pass", False)]
)
def test_keys_without_values_are_not_left_out(
    session: Session, tmp_path: Path, name: str, line: str, lost: bool
) -> None:
    file = tmp_path / "candidate.py"
    file.write_text(HEAD + FUNCTION.format(line=line))
    report = examine(session, f"{file}:{name}", sizes={"T": 5, "S": 7, "W": 24})
    assert ("kv_len_mismatch" in {f.id for f in report.findings}) is lost
