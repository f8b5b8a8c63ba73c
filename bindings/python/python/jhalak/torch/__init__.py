"""What only torch needs: the operations of torch.ops.jhalak, and `enable_sdpa`.

`jhalak.attention` takes torch tensors by itself: it is differentiable, compiles with
torch.compile(fullgraph=True) and draws dropout's seed from torch's generator.
"""

from jhalak.torch import _calls, _ops  # noqa: F401 - registers the operations
from jhalak.torch._sdpa import SdpaSwitch, enable_sdpa

__all__ = ["SdpaSwitch", "enable_sdpa"]
