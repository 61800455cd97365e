"""gpucost: what GPUs cost, who used them, and what could be done about it."""

__version__ = "0.1.0"
