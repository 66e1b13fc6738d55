"""What a model attends to, recorded while it runs: a context manager, and what it gives.

``session`` intercepts (``interface``, ``sdpa``, ``kernel``, and ``overt.recorder``), ``call`` is what was seen and
``visible`` its mask, ``checking`` compares it with the model's own output, ``keeping`` and ``chain`` hold and join it,
``entries`` and ``recording`` are what a caller gets, ``measures``, ``summaries``, ``table``, ``labels`` and ``files``
what it can be asked.
"""

from overt.torch.record.entries import Recorded
from overt.torch.record.measures import Measures
from overt.torch.record.recording import Recording, load, record

__all__ = ["Measures", "Recorded", "Recording", "load", "record"]
