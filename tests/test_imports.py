"""Imports run one way, cost little, and bring in nothing that was not asked for."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

import overt

PACKAGE = Path(inspect.getfile(overt)).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}

# Each module or package may import those above its own line, and those before it in its line.
LAYERS = [
    ["errors"],
    ["writing"],
    ["grid"],
    ["recorder"],
    ["masks", "scores", "biases", "dropout", "positions"],
    ["bits"],
    ["problem"],
    ["interchange"],
    ["reference"],
    ["kernels"],
    ["weights"],
    ["attended", "trace"],
    ["given"],
    ["attention"],
    ["parts"],
    ["cache"],
    ["views", "check"],
    ["__init__"],
    ["dask", "files"],
    ["layers"],
    ["models"],
    ["torch"],
    ["training"],
    ["cli", "__main__"],
]
# The packages of check/, each of which may import those before it.
ROOMS = ("text", "steps", "process", "calls", "varied", "parts")
# What is imported inside a function, when somebody has a tensor.
LATE = {("attention", "torch")}
RANKS = {name: rank for rank, name in enumerate(chain.from_iterable(LAYERS))}
NAMES = [
    "Attended",
    "Bias",
    "Cache",
    "Gradient",
    "Mask",
    "Score",
    "Step",
    "Trace",
    "Weights",
    "additive",
    "alibi",
    "attend",
    "attention",
    "bilinear",
    "causal",
    "check",
    "cosine",
    "documents",
    "dot",
    "dropout",
    "errors",
    "get_num_threads",
    "keep",
    "merge",
    "packed",
    "padding",
    "positions",
    "prefix",
    "relative",
    "scaled_dot",
    "set_num_threads",
    "show",
    "trace",
    "where",
    "window",
]


def imported(tree: ast.AST) -> set[str]:
    """Full names of the modules that a source imports, at its top or inside its functions."""
    found = set()
    nodes = list(ast.walk(tree))
    # What stands there for type checkers alone is never run.
    for node in nodes:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            unread = {id(inner) for inner in ast.walk(node)}
            nodes = [other for other in nodes if id(other) not in unread]
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {
                f"{node.module}.{alias.name}" if node.module == "overt" else str(node.module) for alias in node.names
            }
    return found


def own(names: set[str]) -> set[str]:
    """The modules and packages of overt's own among some names; what is no module is a name of overt itself."""
    tops = {name.split(".")[1] for name in names if name.startswith("overt.")}
    return {top if top in RANKS or top == "_native" else "__init__" for top in tops}


def test_every_module_has_a_place() -> None:
    assert {name.partition(".")[0] for name in MODULES} == set(RANKS)


@pytest.mark.parametrize("name", MODULES)
def test_imports_run_one_way(name: str) -> None:
    top = name.partition(".")[0]
    for other in own(imported(ast.parse(MODULES[name].read_text()))) - {"_native", top}:
        assert RANKS[other] < RANKS[top] or (name, other) in LATE, f"{name} imports {other}"


def within(package: str) -> dict[str, set[str]]:
    """Which modules of a package each of them imports, at its top, inside its functions or for its types alone."""
    own = {name: path for name, path in MODULES.items() if f"{name}.".startswith(f"{package}.")}
    graph = {}
    for module, path in own.items():
        tree = ast.parse(path.read_text())
        named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                # What is no module is a name of the one that it is taken from, such as View of the package.
                named |= {name if name.removeprefix("overt.") in own else str(node.module) for name in whole}
        graph[module] = {name.removeprefix("overt.") for name in named} & own.keys()
    return graph


@pytest.mark.parametrize("package", ["check", "kernels", "models", "training", "views"])
def test_no_package_imports_itself_in_a_circle(package: str) -> None:
    # static_order raises CycleError, which names the circle.
    order = list(TopologicalSorter(within(package)).static_order())
    assert len(order) > 3


def test_the_rooms_of_the_checker_build_on_those_before() -> None:
    rank = {room: number for number, room in enumerate(ROOMS)}
    for module, others in within("check").items():
        for room in {name.split(".")[1] for name in others if name.count(".")} & rank.keys():
            assert rank[room] <= rank.get(module.split(".")[1] if "." in module else "", len(rank)), f"{module}: {room}"


def test_one_module_knows_the_compiled_one() -> None:
    knowing = {name for name, path in MODULES.items() if "_native" in own(imported(ast.parse(path.read_text())))}
    assert {name.partition(".")[0] for name in knowing} == {"kernels"}


@pytest.mark.parametrize("name", MODULES)
def test_nobody_imports_what_only_some_may(name: str) -> None:
    tops = {other.partition(".")[0] for other in imported(ast.parse(MODULES[name].read_text()))}
    where = name.partition(".")[0]
    some = {"training.loop", "training.steps", "training.team", "recorder.tensors"}
    assert where == "torch" or name in some or "torch" not in tops
    assert name.split(".")[0] == "dask" or not tops & {"dask", "distributed"}
    assert where in ("views", "cli") or not tops & {"rich", "matplotlib"}
    assert name in ("torch.attention", "torch.record.arrays") or "ml_dtypes" not in tops


def test_public_names() -> None:
    assert overt.__all__ == NAMES
    assert sorted(NAMES) == NAMES
    for name in NAMES:
        thing = getattr(overt, name)
        assert thing.__doc__, name
        # Modules of the same name must not shadow functions.
        assert inspect.ismodule(thing) == (name in ("errors", "positions")), name


FRESH = """
import json, sys, time
start = time.process_time()
import numpy
middle = time.process_time()
import overt
print(json.dumps([middle - start, time.process_time() - start, sorted(sys.modules)]))
"""


def fresh() -> tuple[float, float, set[str]]:
    """Processor seconds of importing NumPy, of NumPy and overt, and what is there then."""
    # Threads of OpenBLAS wait by spinning, which would count as work of the import.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    output = subprocess.run(
        [sys.executable, "-c", FRESH], check=True, capture_output=True, text=True, timeout=60, env=alone
    ).stdout
    numpy, everything, modules = json.loads(output)
    return numpy, everything, set(modules)


def test_importing_brings_nothing_unasked() -> None:
    modules = {name.partition(".")[0] for name in fresh()[2]}
    assert not modules & {"torch", "dask", "rich", "matplotlib", "ml_dtypes", "click", "safetensors", "pandas", "scipy"}


def test_modules_come_when_they_are_asked_for() -> None:
    code = """
import sys
import overt
lazy = ["dask", "files", "layers", "models", "torch"]
before = set(sys.modules)
assert {*lazy, "record"} <= set(dir(overt))
assert not {"torch", "dask"} & set(sys.modules)
assert not {f"overt.{name}" for name in lazy} & set(sys.modules)
for name in lazy:
    assert name not in vars(overt)
    module = getattr(overt, name)
    assert module is sys.modules[f"overt.{name}"] is vars(overt)[name]
assert overt.record.__module__ == "overt.torch.record.recording"
try:
    overt.nothing
except AttributeError as error:
    assert str(error) == "module 'overt' has no attribute 'nothing'"
else:
    raise AssertionError
assert "__version__" in dir(overt) and set(overt.__all__) <= set(dir(overt))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_tensors_come_without_the_compiler() -> None:
    # To import torch's takes longer than all that overt.torch does.
    code = "import sys, overt.torch; assert not {'torch._dynamo', 'sympy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_takes_less_than_150_milliseconds() -> None:
    # A slow or busy machine, one on which NumPy alone takes more than 70 ms, is given as much more time for overt.
    best = min(everything / max(1, numpy / 0.07) for numpy, everything, _ in (fresh() for _ in range(9)))
    assert best < 0.15


def test_using_numpy_arrays_imports_no_other_library() -> None:
    code = (
        FRESH
        + """
import numpy as np
q = np.ones((2, 3, 4), np.float32)
seen = overt.attend(q, q, q, mask=overt.causal() & overt.padding(3), bias=overt.alibi(overt.positions.alibi_slopes(2)))
seen.weights[0], seen.top(2), seen.received(), seen.map(2, 2), seen.gradient(seen.output), overt.trace(q, q, q)
overt.positions.rope(q, layout="half")
assert "torch" not in sys.modules and "matplotlib" not in sys.modules
"""
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
