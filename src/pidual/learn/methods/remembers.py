"""What methods have in common that keep numbers of every training row."""

from torch import nn

from ..batch import Spec
from .base import Method
from .parts import SampleMemory


class Remembers(Method):
    """A method with a memory of every training row.

    Parameters
    ----------
    memory : "auto", "memory" or "disk"
        Where the numbers of each row are stored: "memory", "disk", or "auto", which is disk above a gigabyte.
    memory_dtype : "float32", "float16" or "bfloat16"
        Number format of these: float32, float16 or bfloat16. float16 cannot hold 1e-8, with which SOP starts.
    """

    def __init__(self, f: nn.Module, spec: Spec, *, memory: str = "auto", memory_dtype: str = "float32"):
        super().__init__(f, spec)
        self._rows, self._where, self._dtype = spec.n_train, memory, memory_dtype

    def remember(self, width: int, std: float = 0.0) -> SampleMemory:
        """So many numbers of every row, which begin at 0 or normal with this standard deviation."""
        return SampleMemory(self._rows, width, std=std, dtype=self._dtype, where=self._where)
