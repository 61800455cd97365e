"""Find the local days to attribute (again), and cut them into cells."""
