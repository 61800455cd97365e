"""Reports as one HTML file that needs nothing else: no network, no fonts, no library."""

from gpucost.report.html.blocks import Bar, Block, Item
from gpucost.report.html.render import render

__all__ = ["Bar", "Block", "Item", "render"]
