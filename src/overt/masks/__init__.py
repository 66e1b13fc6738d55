"""Who may look at whom: masks are values that compose with ``&``, ``|`` and ``~``.

True means *may attend*.  A mask says what it keeps in two ways.  ``visible`` answers for any cells, and is the
definition.  ``plan`` lowers the mask to one span of keys per query, first ≤ s < last, and names what a span cannot say.
Kernels know spans and bits, and never hear the word "causal".
"""

from overt.masks.mask import Keep, Mask, Plan, as_mask, keep, where
from overt.masks.spans import Spans, Window, as_offset, causal, documents, packed, padding, prefix, window

__all__ = [
    "Keep",
    "Mask",
    "Plan",
    "Spans",
    "Window",
    "as_mask",
    "as_offset",
    "causal",
    "documents",
    "keep",
    "packed",
    "padding",
    "prefix",
    "where",
    "window",
]
