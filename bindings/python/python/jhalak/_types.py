"""Names for what functions take, as type checkers and readers see them."""

from typing import Any, TypeAlias

# A torch.Tensor, a numpy.ndarray, or an array of any library that has __dlpack__.
Array: TypeAlias = Any
# How many keys are seen to the left and to the right; None or -1 is unbounded.
Window: TypeAlias = tuple[int | None, int | None] | list[int | None]
