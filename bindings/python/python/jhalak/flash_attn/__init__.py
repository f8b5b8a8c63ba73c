"""The interface of flash-attn 2.8 on jhalak: the same names, signatures and results.

    from jhalak.flash_attn import flash_attn_func

More than flash-attn takes: the CPU, float32 and float64, any head dimension, attention sinks
(`s_aux`). `python -m jhalak install-flash-attn` lets other packages find it under the name
flash_attn.
"""

from jhalak.flash_attn.flash_attn_interface import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

# The version of the interface, which other packages ask for.
__version__ = "2.8.3"

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]
