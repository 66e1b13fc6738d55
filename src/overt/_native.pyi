from collections.abc import Sequence

import numpy as np

class Problem:
    def __init__(
        self,
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray | None,
        *,
        dtype: str = "float32",
        scale: float,
        softcap: float = 0.0,
        first: np.ndarray | None = None,
        last: np.ndarray | None = None,
        bits: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        sinks: np.ndarray | None = None,
        additive: np.ndarray | None = None,
        bounded: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
        first_batch: int = 0,
        first_head: int = 0,
        first_query: int = 0,
        first_key: int = 0,
        whole_rows: int = 0,
        whole_keys: int = 0,
    ) -> None: ...

def forward(
    p: Problem,
    output: np.ndarray,
    lse: np.ndarray | None = None,
    rest: np.ndarray | None = None,
    received: np.ndarray | None = None,
    entropy: np.ndarray | None = None,
    *,
    threads: int = 0,
    level: str | None = None,
    panels: bool = False,
) -> bool: ...
def backward(
    p: Problem,
    output: np.ndarray,
    lse: np.ndarray,
    rest: np.ndarray | None,
    dy: np.ndarray,
    dlse: np.ndarray | None,
    dq: np.ndarray | None,
    dk: np.ndarray | None,
    dv: np.ndarray | None,
    dbias: np.ndarray | None = None,
    dsinks: np.ndarray | None = None,
    dadditive: np.ndarray | None = None,
    *,
    threads: int = 0,
    level: str | None = None,
) -> None: ...
def plain_forward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    dtype: str,
    scale: float | None,
    first: np.ndarray | None,
    last: np.ndarray | None,
    output: np.ndarray,
    lse: np.ndarray | None,
    threads: int,
) -> None: ...
def plain_backward(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    dtype: str,
    scale: float | None,
    first: np.ndarray | None,
    last: np.ndarray | None,
    output: np.ndarray,
    lse: np.ndarray,
    dy: np.ndarray,
    dq: np.ndarray | None,
    dk: np.ndarray | None,
    dv: np.ndarray | None,
    limit: float,
    threads: int,
) -> bool: ...
def statistics(
    p: Problem,
    lse: np.ndarray,
    rest: np.ndarray | None,
    received: np.ndarray | None = None,
    entropy: np.ndarray | None = None,
    keys: np.ndarray | None = None,
    found: np.ndarray | None = None,
    rows: Sequence[int] = (),
    output: np.ndarray | None = None,
    off: np.ndarray | None = None,
    *,
    limit: float = ...,
    threads: int = 0,
    level: str | None = None,
) -> bool: ...
def top(
    p: Problem,
    lse: np.ndarray,
    rest: np.ndarray | None,
    indices: np.ndarray,
    weights: np.ndarray,
    *,
    threads: int = 0,
    level: str | None = None,
) -> None: ...
def map(
    p: Problem,
    lse: np.ndarray,
    rest: np.ndarray | None,
    row_bins: np.ndarray,
    col_bins: np.ndarray,
    out: np.ndarray,
    pool: str,
    *,
    threads: int = 0,
    level: str | None = None,
) -> None: ...
def weights(
    p: Problem,
    lse: np.ndarray,
    rest: np.ndarray | None,
    out: np.ndarray,
    *,
    threads: int = 0,
    level: str | None = None,
) -> None: ...
def levels() -> list[str]: ...
def features(level: str) -> list[str]: ...
def threads() -> int: ...
def poison(on: bool) -> None: ...
