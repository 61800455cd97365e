"""What an hour of an own node costs: purchase, power, space and people, spread over its hours."""

from gpucost.price.onprem.cost import Part, Tco, tco
from gpucost.price.onprem.inputs import Inputs, read_file, read_inputs
from gpucost.price.onprem.save import BookEntry, with_entry

__all__ = ["BookEntry", "Inputs", "Part", "Tco", "read_file", "read_inputs", "tco", "with_entry"]
