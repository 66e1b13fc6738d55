"""What is wrong with somebody's attention: ``overt.check``.

The candidate runs in a process of its own, which this package's ``child`` is; ``session`` talks to it.
``interface`` reads names and text, ``attention`` calls the candidate, ``steps`` is the reference with its mistakes,
``search`` finds the mistakes that give the candidate's numbers; ``calling`` does so with nothing but arrays, and
``diagnosis`` feature by feature; ``probes`` and ``edges`` look for what is not in the numbers, and ``report`` tells.
Parts of attention by themselves are ``parts``, additive scores are ``additive``, calls in pieces ``continuing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overt.check.report import Report

__all__ = ["check"]


def check(target: Any, **options: Any) -> Report:
    """What is wrong with somebody's attention: a function, a class, an instance, or ``"FILE.py:name"``.

    It is run on small problems in a process of its own and compared with the reference in float64; where it differs,
    the report names the known mistakes that give its numbers.  This runs the candidate's code: with the limits of
    ``timeout`` seconds an answer and ``memory`` bytes, but with all your rights.

    layout: "BHTD", "BTHD", "BTD", "TBD", "TD" or "HTD"; mask: "keep", "drop" or "additive"; arguments: the role of
    arguments whose names say nothing, such as {"a": "q"}.  All are found out where they are not given.
    isolate=False runs a thing in this process, without limits, for what cannot be forked.
    Returns a report: ``report.ok``, ``report.findings``, ``print(report)``.
    """
    from overt.check.checking import check as run

    return run(target, **options)
