"""What is wrong with somebody's attention: ``overt.check``.

The candidate runs in a process of its own, which this package's ``child`` is; ``session`` talks to it.
``interface`` and ``promises`` read names and text, ``shapes`` those of arguments, ``reading`` the code; ``search``
finds a call that works, of those that ``suggesting`` and ``mending`` hand it as ``calls``, whose arguments ``giving``
makes there, and ``trying`` has its recording judged by ``judging``, whose steps are ``pipeline``, ``positional``,
``alignment`` and ``additive``. ``asking``, ``contracts``, ``beside``, ``effects`` and ``continuing`` vary the call,
``outside`` asks what no recording shows, and ``report`` tells. Parts of attention by themselves are ``parts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overt.check.report import Report

__all__ = ["check"]


def check(target: Any, **options: Any) -> Report:
    """What is wrong with somebody's attention: a function, class, instance, ``"FILE.py:name"`` or ``"…:Class.method"``.

    A call that works is found by trying, in a process of its own, and recorded; each step of the attention inside is
    judged on its own input, and the report names what is wrong with its line.  This runs the candidate's code: with the
    limits of ``timeout`` seconds an answer and ``memory`` bytes, but with all your rights.

    layout: "BHTD", "BTHD", "BTD", "TBD", "TD" or "HTD"; mask: "keep", "drop" or "additive"; arguments: the role of
    arguments whose names say nothing, such as {"a": "q"}.  All are found by trying where they are not given.
    isolate=False runs a thing in this process, without limits, for what cannot be forked.
    Returns a report: ``report.ok``, ``report.findings``, ``print(report)``.
    """
    from overt.check.checking import check as run

    return run(target, **options)
