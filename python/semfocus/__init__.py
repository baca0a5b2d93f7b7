"""semfocus: a lab for attention mechanisms.

>>> import semfocus
>>> result = semfocus.compare("even-pairs", attention=["full", "topk:3"], seed=[1], store=STORE, **SMALL)
>>> len(result.table())
2

``train`` and ``compare`` do what the commands of the same names do; ``Store`` reads what they stored; ``selector`` and
``weighting`` make mechanisms of Python functions; ``semfocus.torch`` brings the mechanisms to PyTorch."""
from ._library import Error, RunFailed, version as _version
from ._parts import selector, weighting
from ._safetensors import read_safetensors
from ._store import Run, Store
from ._study import Comparison, compare, parts, settings, train

__version__ = _version()
__all__ = ["Comparison", "Error", "Run", "RunFailed", "Store", "compare", "parts", "read_safetensors", "selector",
           "settings", "train", "weighting"]
