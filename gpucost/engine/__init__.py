"""Where the SQL stages run."""
