"""Calls that continue others: a sequence at once against the same in pieces, whatever keeps the keys between them.

That keys are kept at all shows in the recording: the piece that comes later has more keys than tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.steps.definitions import same
from overt.check.text.lines import counted_at, given_at
from overt.check.text.shapes import Path
from overt.check.varied import reordering
from overt.check.varied.asking import Caller
from overt.check.varied.beside import Made
from overt.check.varied.pieces import ALONG, Continuation, Pieces, holds

# Where a later piece begins, of one token, and of as many as distances are told by.
_ALL, _CUT, _FEW = 5, 4, 2
_SAME = "pieces give what all at once gives"
# So many tokens that not all of them are kept.
_LONG = 20
_LOOSE = 1e-4
# Flags of a constructor that are tried.
_FLAGS = 3


def check(caller: Caller, guess: Guess, made: Made, findings: Findings) -> None:
    """Make a call that works in pieces, where nothing is kept also with what a flag of the constructor switches on."""
    kept = Continued(caller, guess).check(findings)
    empty = _emptied(guess)
    if not kept and empty is not None and not findings.wrong:
        kept = Continued(caller, empty).pieces(findings)
    off = [name for name, was in made.numbers(caller).items() if was is False]
    for name in off[:_FLAGS] if not kept and not findings.wrong else ():
        other = made.other(caller, {name: True})
        if other is not None and Continued(other, guess).pieces(findings):
            break


def _emptied(guess: Guess) -> Guess | None:
    """The same call with nothing in lists and dictionaries that hold keys and values alone; None without such."""
    held: dict[Path, list[str]] = {}
    for path, kind in guess.kinds:
        if len(path) > 1:
            held.setdefault(path[:1], []).append(kind)
    kinds = dict(guess.kinds)
    kept = {path for path, inner in held.items()
            if holds(kinds.get(path, "")) and all("S" in calls.axes_of(kind) for kind in inner)}  # fmt: skip
    left = tuple((path, kind) for path, kind in guess.kinds if path in kept or path[:1] not in kept)
    return replace(guess, kinds=left) if kept else None


class Continued:
    """A call that works, made in pieces."""

    def __init__(
        self, caller: Caller, guess: Guess, tables: frozenset[str] = frozenset(), memories: frozenset[str] = frozenset()
    ) -> None:
        self.caller, self.face, self.guess = caller, caller.face, guess
        self.calls = Pieces(caller, guess.sized(T=_ALL, S=_ALL), tables, memories)
        self.kinds, self.axes = self.calls.kinds, self.calls.axes

    def check(self, findings: Findings) -> bool:
        """Whether what comes later changes nothing that is promised to be causal, and ``pieces``."""
        if self.axes and not findings.wrong and not self._scored:
            self._begun(findings)
        return self.pieces(findings)

    @property
    def _scored(self) -> bool:
        """Whether it is given scores or weights."""
        return any("TS" in kind for kind in self.kinds.values() if calls.is_floats(kind))

    def pieces(self, findings: Findings) -> bool:
        """Whether keys are kept in some way; then it is told whether pieces give what all at once gives."""
        if not self.axes or self._scored:
            return False
        # Rows that are taken by the candidate are taken by nobody else, where it runs so.
        tables, memories = self.calls.whole_tables(), self.calls.other_sequences()
        for some, others in dict.fromkeys(((tables, memories), (tables, frozenset()), (frozenset(), memories))):
            if (some or others) and Continued(self.caller, self.guess, some, others)._checked(findings):
                return True
        if self._checked(findings):
            return True
        # What has room for keys may have it in numbers of one width.
        if not self.calls.sizes or self.guess.dtype != "float64":
            return False
        narrow = Continued(self.caller, replace(self.guess, dtype="float32"))
        return narrow._checked(findings)

    def _checked(self, findings: Findings) -> bool:
        """Whether keys are kept in some way, which was told."""
        found = self.calls.run([Continuation({}, {}, flags=flags) for flags in self.calls.flags()], (0, _ALL))
        ways = list(self.calls.ways())
        wholes = {way.flags: rows for way, (rows,) in found}
        if not wholes:
            return False
        shown = self.calls.run(ways, (0, _CUT), (_CUT, _ALL))
        tails = self.calls.run([Continuation({}, {}, flags=flags) for flags in wholes], (_CUT, _ALL))
        alone = {way.flags: rows for way, (rows,) in tails}
        kept: list[tuple[Continuation, bool]] = []
        for way, (head, tail) in shown:
            whole = wholes.get(way.flags)
            axis = _differs(whole, head) if whole is not None else None
            if whole is None or axis is None or (whole.shape[axis], head.shape[axis]) != (_ALL, _CUT):
                continue
            last = whole.take([_ALL - 1], axis)
            if tail.size != last.size or (
                way.flags in alone and same(tail.reshape(-1), alone[way.flags].reshape(-1), _LOOSE)
            ):
                # It gives what it would give without what came before.
                continue
            right = same(tail.reshape(last.shape), last, _LOOSE)
            fresh = [] if right or not way.first else self.calls.run([way], (_CUT, _ALL))
            later = [] if right or way.method is None else self.calls.run([way], (1, _CUT), (_CUT, _ALL))
            if any(same(tail, rows[-1]) for _, rows in (*fresh, *later)):
                # What it was given is as it was, or nothing that came before tells.
                continue
            if self.calls.tables and not right:
                # Whoever does not know where a piece begins was given the rows that it wants.
                blind = self.calls.run([replace(way, count=None)], (0, _CUT), (_CUT, _ALL)) if way.count else ()
                if way.count is None or any(same(tail, rows[-1]) for _, rows in blind):
                    continue
            kept.append((way, right))
        passed = set(self.caller.session.passed)
        for way, right in sorted(kept, key=lambda pair: not pair[1])[:3]:
            if self._told(way, right, findings):
                return True
            # It was no way to call it.
            self.caller.session.passed = set(passed)
        return False

    def _begun(self, findings: Findings) -> None:
        """Whether what is promised to see nothing that comes later is the same where that does not come.

        Where its mask was seen, or nothing was.
        """
        plain = Continuation({}, {})
        told = self.calls.ask([plain], ((0, _ALL),), {"causal": None})[0][0].get("judged", {})
        facts, held = told.get("facts", {}), [e for e in told.get("ledger", ()) if e["step"].endswith("causal")]
        if any("belong to several positions" in e["why"] for e in told.get("ledger", ())):
            # It was called in a way in which it attends to something else.
            return
        # All of it attends to one sequence, and to nothing that is cut with it, as a memory would be.
        moving = {name for name in self.axes if self.kinds[name][:6] == "tokens" or self.kinds[name] not in ALONG}
        moving -= {a.name for a in self.face.arguments if a.role in ("k", "v")}
        known = facts.get("causal") == 0 and len(held) >= told["cores"]
        # Without a softmax no mask is looked for.
        masked = findings.judged and any(e["step"].endswith("softmax") for e in told.get("ledger", ()))
        if not self.face.declared_causal or len(moving) > 1 or (masked and not known):
            return
        (head, whole) = (self.calls.run([plain], (0, end)) for end in (_CUT, _ALL))
        # Tokens that are chosen by chance are others each time.
        meant = head and whole and whole[0][1][0].dtype.kind == "f"
        axis = _differs(whole[0][1][0], head[0][1][0]) if meant else None
        if axis is None or same(whole[0][1][0].take(range(_CUT), axis), head[0][1][0], _LOOSE):
            return
        hides = "and hides later keys, " if known else ""
        findings.add(
            "unknown", line=facts.get("term") or facts.get("bias"),
            message=f"It promises causal attention, {hides}and yet one token more changes what earlier ones come to.",
            mend="Look for what is taken over all positions, such as a norm or mean, or counted from the last of them.",
        )  # fmt: skip

    # What is told.

    def _told(self, way: Continuation, right: bool, findings: Findings) -> bool:
        """Whether keys are kept in this way; then what came of it is told."""
        asked = {"causal": None, "operands": True}
        plain = Continuation({}, {}, flags=way.flags)
        late, whole, chunk = (
            self.calls.ask([one], pieces, asked)[0][-1].get("judged", {})
            for one, pieces in (
                (way, ((0, _CUT), (_CUT, _ALL))),
                (plain, ((0, _ALL),)),
                (way, ((0, _FEW), (_FEW, _ALL))),
            )
        )
        one, all_ = late.get("facts", {}).get("operands"), whole.get("facts", {}).get("operands")
        faults = {fault["mistake"]: fault for told in (late, chunk) for fault in told.get("faults", ())}
        top_left = faults.get("causal_top_left")
        if one is None and top_left is not None:
            # One query that sees one key alone has no weights to be known by; several have.
            one = chunk["facts"].get("operands")
        if one is None or all_ is None or len(one["k"][0]) < 2:
            if right:
                # What is kept are no keys, but what was made of them, as in linear attention.
                findings.entered("cache", _SAME)
            return right
        chunked = self.calls.run([way], (0, _FEW), (_FEW, _ALL))
        wholes = self.calls.run([plain], (0, _ALL))
        if "alibi_offset" in faults:
            findings.tell(faults["alibi_offset"])
        if right and chunked and wholes:
            rows, total = chunked[0][1], wholes[0][1][0]
            axis = _differs(total, rows[0])
            last = total.take(range(_FEW, _ALL), axis) if axis is not None and total.shape[axis] == _ALL else None
            whole_too = last is None or rows[1].shape != last.shape or same(rows[1], last, _LOOSE)
            if whole_too or top_left is None:
                findings.entered("cache", _SAME if whole_too else "one token at a time")
                self._slid(way, findings)
                cut = ((0, _CUT), (_CUT, _ALL))
                pieces = [self.calls.spec(way, *some, (None, 0)[n], f"0.{n} ") for n, some in enumerate(cut)]
                reordering.check(self.caller, self.kinds, pieces, findings)
                return True
        if top_left is not None:
            line = chunk["facts"].get("mask made") or top_left["line"]
            line = line and given_at(top_left["file"], line, "causal")
            findings.add("causal_top_left", kind="mistake", line=line)
        if _turned(one, all_):
            turned = (e["line"] for told in (late, whole) for e in told["ledger"] if e["step"].endswith("rotation"))
            # The rows that are taken, where some are.
            look = rf"\b({'|'.join(self.calls.tables)})\[" if self.calls.tables else ""
            line, file = next(turned, None), self.face.description["file"]
            steps = self.face.description.get("steps") or ()
            if line and file and (late_at := counted_at(file, line, steps)) != counted_at(file, line):
                # Of several methods, that which goes on has lost count.
                line = late_at
            findings.add("rope_offset", kind="mistake", line=None if look else line, look=look)
        elif top_left is None and not right and not self._open(way) and self._continues(way, wholes, chunk):
            findings.add("decode_differs", certain=False)
        findings.enter([late])
        return True

    def _continues(
        self, way: Continuation, wholes: list[tuple[Continuation, list[np.ndarray]]], chunk: dict[str, Any]
    ) -> bool:
        """Whether a later piece attends to what came before beside itself, and what comes first is then the same."""
        given = chunk.get("facts", {}).get("operands", {}).get("k", ())
        keys, heads = np.shape(given), self.calls.run([way], (0, _CUT))
        if len(keys) != 3 or keys[1] <= _ALL - _FEW or not heads or not wholes:
            return False
        head, whole = heads[0][1][0], wholes[0][1][0]
        axis = _differs(whole, head)
        # What sees all of its piece is the same in one layer, but not what the next one makes of that.
        return axis is None or chunk["cores"] == 1 or same(whole.take(range(_CUT), axis), head, _LOOSE)

    def _slid(self, way: Continuation, findings: Findings) -> None:
        """Whether a query is still turned as far from the keys that were kept, once some have been thrown away."""
        if self.face.description["backend"] == "jax":
            # Each of these calls would be compiled.
            return
        longer = Pieces(self.caller, self.guess.sized(T=_LONG, S=_LONG))
        asked, steps = {"causal": None, "operands": True}, [(n, n + 1) for n in range(_CUT, _LONG)]
        late = longer.ask([way], ((0, _CUT), *steps), asked)[0][-1].get("judged", {})
        whole = longer.ask([Continuation({}, {}, flags=way.flags)], ((0, _LONG),), asked)[0][0].get("judged", {})
        one, all_ = (told.get("facts", {}).get("operands") for told in (late, whole))
        if one is None or all_ is None:
            return
        (q, k), (q_whole, k_whole) = ((np.asarray(x["q"]), np.asarray(x["k"])) for x in (one, all_))
        kept = min(k.shape[1], k_whole.shape[1]) if k.ndim == k_whole.ndim == 3 else 0
        if k.shape[1] >= _LONG or len(k) != len(k_whole) or k.shape[2:] != k_whole.shape[2:]:
            return
        q, q_whole, k, k_whole = q[:, -1:], q_whole[:, -1:], k[:, -kept:], k_whole[:, -kept:]
        # The same but for how they are turned.
        lengths = [np.linalg.norm(x, axis=-1) for x in (q, q_whole, k, k_whole)]
        alike = same(lengths[0], lengths[1], _LOOSE) and same(lengths[2], lengths[3], _LOOSE)
        if alike and not same((q * k).sum(-1), (q_whole * k_whole).sum(-1), _LOOSE):
            turned = (e["line"] for e in whole["ledger"] if e["step"].endswith("rotation"))
            findings.add(
                "rope_offset", kind="mistake", line=next(turned, None),
                message="Once keys are thrown away, a later query is turned as if it stood where they end.",
                mend="Count all tokens that came before, and not those that are kept.",
            )  # fmt: skip

    def _open(self, way: Continuation) -> bool:
        """Whether there are arguments that may have to be given another way."""
        given = {*self.kinds, *way.first, *way.later, *way.flags, way.count}
        return any(a.name not in given for a in self.face.arguments)


def _differs(one: np.ndarray, two: np.ndarray) -> int | None:
    """The one axis in which two arrays have other lengths."""
    axes = [i for i, (n, m) in enumerate(zip(one.shape, two.shape, strict=False)) if n != m]
    return axes[0] if one.ndim == two.ndim and len(axes) == 1 else None


def _turned(one: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether the last query, or its key, is as long as it is in the whole, and points elsewhere."""
    for name in "qk":
        x, y = np.asarray(one[name]), np.asarray(whole[name])
        if x.ndim != 3 or y.ndim != 3 or len(x) != len(y) or x.shape[2] != y.shape[2]:
            continue
        late, last = x[:, -1] ** 2, y[:, -1] ** 2
        if not np.allclose(late.sum(-1), last.sum(-1), rtol=1e-4) or same(x[:, -1], y[:, -1], _LOOSE):
            continue
        # Where all are as long, as what is normed is, only the pairs that are turned tell.
        half = late.shape[-1] // 2
        pairs = (
            [one[:, :half] + one[:, half : 2 * half], one[:, : 2 * half : 2] + one[:, 1 : 2 * half : 2]]
            for one in (late, last)
        )
        normed = same(late.sum(-1) / late.sum(-1).mean(), np.ones(len(late)), _LOOSE)
        if not normed or any(same(a, b, _LOOSE) for a, b in zip(*pairs, strict=True)):
            return True
    return False
