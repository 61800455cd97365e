"""Several changes over named groups of workloads, in order, each counted on what those before it left."""
