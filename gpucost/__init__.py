"""gpucost: GPU costs, their users, and ways to save."""

__version__ = "0.1.0"
