"""One hypothesis profile: the same examples everywhere, so that a failure is everybody's failure; and what tests of the
checker share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report

# Tests run side by side: threads of OpenMP that wait by spinning take a third of the processor from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile(os.environ.get("OVERT_HYPOTHESIS", "default"))

pytest_plugins = ["pytester", "chromium"]


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """One process for all candidates, as where a folder is checked: to import torch takes longer than to judge ten."""
    with Session() as running:
        yield running


@pytest.fixture(scope="module")
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module's ``SOURCE``, in a file."""
    path = tmp_path_factory.mktemp("candidates") / "candidates.py"
    path.write_text(request.module.SOURCE)
    return path


@pytest.fixture
def mistakes(session: Session, file: Path) -> Callable[[str], list[str]]:
    """The mistakes that are found in a candidate of the module, by its name."""
    return lambda name: sorted(
        f.id for f in examine(session, f"{file}:{name}").findings if f.kind in ("mistake", "unknown")
    )


@pytest.fixture
def check(session: Session, tmp_path: Path) -> Callable[..., Report]:
    """The report on a candidate of a source, by its name; what its arguments are, where that is told."""

    def run(name: str, source: str, **arguments: str) -> Report:
        path = tmp_path / "candidates.py"
        path.write_text(source, encoding="utf-8")
        return examine(session, f"{path}:{name}", arguments=arguments)

    return run
