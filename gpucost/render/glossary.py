"""Glossary: one definition and one denominator per term, for pages, headers and docs/glossary.md."""

from gpucost.records import frozen_dataclass


@frozen_dataclass
class Term:
    """A term, its meaning, and other titles of columns and figures that show it.

    `is_title`: the term itself is a title, too.
    """

    name: str
    meaning: str
    titles: tuple[str, ...] = ()
    is_title: bool = True

    @property
    def anchor(self) -> str:
        """The anchor on a page: `spot-ratio`."""
        return self.name.lower().replace(" ", "-")


TERMS = (
    Term(
        "GPU-hours",
        "Hours times the number of GPUs held, also called allocated. A MIG slice, a time-sliced slot or a "
        "fraction counts as its part of the GPU. Allocated = active + idle + unmeasured.",
        ("GPU-hours held", "GPU-hours consumed"),
    ),
    Term(
        "Held",
        "From a pod's binding to a node, or a job's start, until its end. Pulling an image counts; waiting does not.",
        is_title=False,
    ),
    Term("Cost", "The holder's share of the node's price. The sum of all rows is the node cost."),
    Term(
        "Allocated",
        "GPU-hours or cost of GPUs with a holder: the sum of all teams. Cost is a share of node cost.",
    ),
    Term(
        "Node cost",
        "The cost of all GPU nodes: cost of teams + unallocated cost + not collected cost, to the last decimal.",
        is_title=False,
    ),
    Term("Active", "Allocated time with measured activity at or above the idle threshold, by default 5 %."),
    Term(
        "Idle",
        "Allocated time with measured activity below the idle threshold. Its percentage is a share of allocated GPU-hours.",
        ("Idle h", "Idle GPU-hours"),
    ),
    Term(
        "Idle cost",
        "The cost of idle time. Its percentage is a share of allocated cost, never of the cost of all nodes.",
    ),
    Term(
        "Unmeasured",
        "Allocated time without a valid sample: neither active nor idle. Its percentage is a share of allocated GPU-hours.",
    ),
    Term(
        "Measured",
        "Allocated GPU-hours with valid samples, as a share of all allocated GPU-hours. The rest is unmeasured.",
    ),
    Term(
        "Unallocated",
        "GPU time of running nodes that no pod held. Hours are a share of capacity, money is a share of node cost.",
        ("Unallocated cost", "Unallocated GPUs"),
    ),
    Term(
        "Unavailable",
        "The part of unallocated time in which no pod could have held the GPU: the node was not ready or "
        "cordoned, or the GPU was not allocatable.",
    ),
    Term(
        "Not collected",
        "Time without metrics. Its cost is zero, or the billed cost, in rows of its own. It never counts "
        "as unallocated.",
    ),
    Term(
        "Bridged",
        "A gap in the metrics of up to two hours, or `[coverage] max_bridge`: pods at both ends held their GPUs in between.",
    ),
    Term(
        "API cost",
        "The cost of bought tokens on bills. It is separate from the cost of GPUs, and part of no GPU-hour.",
        ("Bought tokens",),
    ),
    Term(
        "Waste",
        "GPU time without use: idle, unallocated and lost time, and surplus replicas. `gpucost waste` puts "
        "every GPU-hour in one row; its percentage is a share of node cost, or of the team's cost for one "
        "team. A report shows the parts that do not depend on the type of workload.",
        ("Wasted",),
    ),
    Term(
        "Efficiency",
        "Active time as a share of active and idle time; unmeasured time is in neither. Its target is "
        "unknown if too little was measured, by default under 80 %.",
    ),
    Term(
        "Spot ratio",
        "Spot GPU-hours as a share of allocated GPU-hours with a known capacity type.",
        ("Spot",),
    ),
    Term(
        "Capacity",
        "GPUs of running nodes times their running hours: allocated and unallocated GPU-hours together.",
        is_title=False,
    ),
    Term(
        "Over-allocated",
        "Allocated GPU-hours beyond the node's capacity, for example if more pods share a GPU than it has "
        "slots. Hours are kept; costs are scaled down to the node's cost.",
    ),
    Term(
        "Estimate",
        "Cost that is not final: no bill covers it yet. Its price is from a price book, spot price history or list prices.",
    ),
    Term(
        "Charged",
        "The amount a team pays: its cost, plus its share of unallocated and shared costs if you share them.",
    ),
)

#: The term for a column or figure of this title.
OF_TITLE = {term.name: term for term in TERMS if term.is_title}
OF_TITLE |= {title: term for term in TERMS for title in term.titles}
