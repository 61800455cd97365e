"""Which local days must be attributed (again), and how they are cut into cells."""
