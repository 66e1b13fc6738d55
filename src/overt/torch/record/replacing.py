"""overt's kernel in the place of the model's own."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from overt.attended import Attended
from overt.errors import RecordingError
from overt.torch.arrays import tensor
from overt.torch.record.arrays import owned
from overt.torch.record.call import Call


def replaced(call: Call, name: str) -> Tensor:
    """The output (B, H, T, E) of a call, by overt's kernel; the call learns its log-sum-exp and statistics."""
    if not call.near:
        raise RecordingError(f'{name}: compute="overt" is for the CPU, and the model is on {call.q.device}')
    if torch.is_grad_enabled() and call.grad:
        raise RecordingError(f'{name}: compute="overt" gives no gradients: run the model under torch.no_grad()')
    if call.dropped:
        raise RecordingError(f'{name}: compute="overt" drops nothing: call model.eval() first')
    call.settle()
    seen = Attended(call.problem(values=True))
    call.lse = owned(seen.lse)
    call.along = owned(seen.received()), owned(seen.entropy())
    return tensor(np.array(seen.output))
