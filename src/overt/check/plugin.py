"""The pytest plugin: the fixture ``overt_check`` keeps a team's own attention honest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from overt.check.report import Report


@pytest.fixture
def overt_check() -> Callable[..., Report]:
    """A function that checks an implementation, and fails the test with the report where it is wrong."""
    from overt.check.checking import check

    def run(target: Any, **options: Any) -> Report:
        report = check(target, **options)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return run
