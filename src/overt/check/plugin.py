"""The pytest plugin: the fixture ``overt_check`` keeps a team's own attention honest."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from overt.check.report import Report


@pytest.fixture
def overt_check(pytestconfig: pytest.Config) -> Callable[..., Report]:
    """A function that checks an implementation, and fails the test with the report where it is wrong.

    What ``[tool.overt.check]`` of the project's pyproject.toml says of a target holds here too; a thing goes by its
    name on the command line, ``FILE.py:name``.
    """
    from overt.check.checking import check
    from overt.check.settings import Settings

    settings = Settings.read(pytestconfig.rootpath)

    def run(target: Any, **options: Any) -> Report:
        found, ignored = settings.of(target if isinstance(target, str) else _named(target), **options)
        report = check(target, **found).without(ignored)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return run


def _named(thing: Any) -> str:
    thing = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    try:
        file = inspect.getsourcefile(thing) or ""
    except TypeError:
        file = ""
    return f"{file}:{getattr(thing, '__name__', '')}"
