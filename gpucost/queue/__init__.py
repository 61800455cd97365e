"""What Kueue says of its ClusterQueues: quotas, use, borrowing, waits, and whose share of the GPUs is fair (docs/kueue.md)."""

from gpucost.queue.build import queues
from gpucost.queue.view import Queue, Waits

__all__ = ["Queue", "Waits", "queues"]
