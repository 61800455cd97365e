"""What the words of reports mean: one definition and one denominator each, for pages, headers and docs/glossary.md."""

from __future__ import annotations

from gpucost.records import record


@record
class Term:
    """A word, what it means, and the titles of columns and figures that show it."""

    name: str
    meaning: str
    titles: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its place on a page: `spot-ratio`."""
        return self.name.lower().replace(" ", "-")


TERMS = (
    Term(
        "GPU-hours",
        "Hours for which GPUs were held, times how many: also called allocated. A MIG slice, a time-sliced slot or a fraction "
        "counts as its part of the GPU. Allocated = active + idle + unmeasured.",
        ("GPU-hours", "GPU-hours held", "GPU-hours consumed"),
    ),
    Term(
        "Held",
        "From the moment a pod is bound to a node, or a job starts, until it ends. Pulling an image holds; waiting does not.",
    ),
    Term(
        "Cost",
        "What held GPUs cost: their share of the node's price. All rows together: what the nodes cost.",
        ("Cost",),
    ),
    Term(
        "Allocated",
        "What somebody held, in GPU-hours or as its cost: the sum of all teams. Cost is a share of node cost.",
        ("Allocated",),
    ),
    Term(
        "Node cost",
        "What the nodes cost: cost of teams + unallocated cost + not collected cost, to the last decimal.",
    ),
    Term(
        "Active",
        "Held time in which the GPU was measured at or above the idle threshold, 5 % unless you set another.",
        ("Active",),
    ),
    Term(
        "Idle",
        "Held time in which the GPU was measured under the idle threshold. Its percentage is a share of allocated GPU-hours.",
        ("Idle", "Idle h", "Idle GPU-hours"),
    ),
    Term(
        "Idle cost",
        "The part of the cost that fell into idle time. Its percentage is a share of allocated cost, never of the "
        "cost of all nodes.",
        ("Idle cost",),
    ),
    Term(
        "Unmeasured",
        "Held time without a valid sample: neither active nor idle. Its percentage is a share of allocated GPU-hours.",
        ("Unmeasured",),
    ),
    Term(
        "Measured",
        "Allocated GPU-hours with valid samples, as a share of all of them: what unmeasured leaves.",
        ("Measured",),
    ),
    Term(
        "Unallocated",
        "Time of a running node's GPUs that nobody held. Hours are a share of capacity, money is a share of node cost.",
        ("Unallocated", "Unallocated cost", "Unallocated GPUs"),
    ),
    Term(
        "Unavailable",
        "The part of unallocated time in which nobody could have held the GPU: the node was not ready or cordoned, or the GPU "
        "was not allocatable.",
        ("Of these unavailable", "Unavailable"),
    ),
    Term(
        "Not collected",
        "Time of which no metrics tell. It costs nothing, or what the bill says, in rows of its own. It is never "
        "taken for unused.",
        ("Not collected",),
    ),
    Term(
        "Bridged",
        "A gap in the metrics of up to two hours, or `[coverage] max_bridge`: who held a GPU at both ends held it in between.",
        ("Bridged",),
    ),
    Term(
        "API cost",
        "What bought tokens cost, as bills say: beside what GPUs cost, and in no GPU-hour.",
        ("API cost", "Bought tokens"),
    ),
    Term(
        "Waste",
        "GPU time that did no good: idle, unallocated and lost time, and replicas beyond what the peak needs. `gpucost waste` "
        "puts every GPU-hour in one line; its percentage is a share of node cost, of one team of its cost. A report shows the "
        "parts that need no guess about workloads.",
        ("Waste", "Wasted"),
    ),
    Term(
        "Efficiency",
        "Active time as a share of active and idle time; unmeasured time is in neither. A target on it is unknown where too "
        "little was measured, under 80 % unless you set another share.",
        ("Efficiency",),
    ),
    Term(
        "Spot ratio",
        "Spot GPU-hours as a share of allocated GPU-hours whose capacity type is known.",
        ("Spot ratio", "Spot"),
    ),
    Term(
        "Capacity",
        "GPUs of running nodes, times the hours that they ran: allocated and unallocated GPU-hours together.",
    ),
    Term(
        "Over-allocated",
        "Held GPU-hours beyond what the node has, as when more pods share a GPU than it has slots. Hours stay as held; costs are "
        "scaled down to the node's cost.",
        ("Over-allocated",),
    ),
    Term(
        "Estimate",
        "Cost that no bill covers yet: from a price book, spot price history or list prices.",
        ("Estimate",),
    ),
    Term(
        "Charged",
        "What a team pays: its cost, and its share of costs that nobody holds where you share those.",
        ("Charged",),
    ),
)

#: The term that a column or figure of this title shows.
OF_TITLE = {title: term for term in TERMS for title in term.titles}
